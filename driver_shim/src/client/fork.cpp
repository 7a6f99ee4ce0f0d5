#include "fork.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "error.h"

namespace emu::client {
namespace {

std::array<std::atomic<int>, 256> sockets{}; // fd + 1; read by the child alone, right after the fork
std::atomic<bool> opened{false};
std::atomic<bool> forked{false};

void in_child() {
  if (!opened) return;
  forked = true;
  for (auto& slot : sockets) {
    if (const int fd = slot.exchange(0); fd != 0) close(fd - 1);
  }
}

void replace(int from, int to) {
  for (auto& slot : sockets) {
    int expected = from;
    if (slot.compare_exchange_strong(expected, to)) return;
  }
}

} // namespace

void close_in_children(int fd) { replace(0, fd + 1); }
void keep_in_children(int fd) { replace(fd + 1, 0); }

void device_was_opened() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
  opened = true;
}

void refuse_after_fork() {
  if (!forked.load(std::memory_order_relaxed)) return;
  throw Error(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_HOST,
              "this process is a fork of one that had opened the device, and a device does not survive a fork",
              "start the process with the 'spawn' method (exec) instead of 'fork'");
}

} // namespace emu::client
