/* Cases about the life of processes: what a kill, a fork or an end does to whom. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <list>
#include <thread>

#include "harness.h"

using namespace emu::test;

namespace {

/* A client that waits for ever, an emud that ends: how long until it is told. */
Duration time_until_told(int signal) {
  static auto* const setups = new std::list<Setup>; // never ended in order: the device is gone
  const Setup& setup = setups->emplace_back();
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  uint64_t sequence = 0;
  OK(api->queue_wait(setup.queue, never, 1, &sequence));
  const int emud = setup.emud;
  std::chrono::steady_clock::time_point killed;
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    killed = std::chrono::steady_clock::now();
    kill(emud, signal);
  });
  REFUSED(EMU_ERROR_DEVICE_LOST, api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  const auto told = std::chrono::steady_clock::now();
  killer.join();
  const emu_error error = last_error();
  CHECK(error.scope == EMU_SCOPE_DEVICE);
  SAYS(error.cause, std::to_string(emud));
  // Whatever comes next says the same, and nothing hangs.
  uint64_t address = 0;
  REFUSED(EMU_ERROR_DEVICE_LOST, api->memory_alloc(setup.context, 1, &address));
  REFUSED(EMU_ERROR_DEVICE_LOST, api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  REFUSED(EMU_ERROR_DEVICE_LOST, api->queue_destroy(setup.copies));
  REFUSED(EMU_ERROR_DEVICE_LOST, api->context_destroy(setup.context));
  api->device_close(setup.device);
  return told - killed;
}

/* Within a fraction of a second. */
void emud_ends(int signal) {
  CHECK(is_within(std::chrono::seconds(1), [&] { return time_until_told(signal); }));
}

} // namespace

CASE(emud_is_killed) { emud_ends(SIGKILL); }
CASE(emud_is_terminated) { emud_ends(SIGTERM); }

CASE(device_is_opened_again) {
  // After the device was lost, a new open gets a new private emud.
  emud_ends(SIGKILL);
  Setup setup;
  setup.alloc(65536);
}

CASE(fork_is_refused) {
  Setup setup;
  const pid_t child = fork();
  if (child == 0) {
    uint64_t address = 0;
    REFUSED(EMU_ERROR_STALE_HANDLE, api->memory_alloc(setup.context, 1, &address));
    SAYS(last_error().mend, "spawn");
    REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_fill(setup.queue, 0, 0, 1, 0, nullptr));
    emu_device* device = nullptr;
    REFUSED(EMU_ERROR_STALE_HANDLE, api->device_open(0, &device));
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  setup.alloc(65536); // the parent goes on
}

CASE(fork_before_open) {
  uint32_t count = 0;
  OK(api->device_count(&count)); // opens nothing, so a child may still open
  const pid_t child = fork();
  if (child == 0) {
    { Setup setup; setup.alloc(65536); }
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CASE(private_emud_is_no_child) {
  // A program that waits for any child must not meet one that it did not start.
  Setup setup;
  CHECK(setup.emud != getpid());
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
}

/* Work in flight and everything held: the device ends with its client, however that goes. */
CASE(client_exits_holding) {
  static Setup* const setup = new Setup;
  const uint64_t address = setup->alloc(1 << 20);
  for (int i = 0; i < 1000; ++i) OK(api->queue_fill(setup->queue, address, 1, 1 << 20, 0, nullptr));
}

CASE(client_is_killed) {
  Client client([] {
    Setup setup;
    setup.alloc(256 << 20);
    emu_program* count = setup.program(kCount);
    const int64_t steps = 20'000'000;
    OK(api->queue_launch(setup.queue, count, kOneBlock, &steps, sizeof steps, 0, nullptr));
    kill(getpid(), SIGKILL);
  });
  CHECK(WIFSIGNALED(client.wait()));
}

CASE(client_is_killed_with_a_child) {
  // A forked child outlives the client and had the socket: emud ends all the same.
  Client client([] {
    Setup setup;
    const pid_t child = fork();
    if (child == 0) {
      sleep(60);
      _exit(0);
    }
    std::printf("%d\n", child);
    std::fflush(stdout);
    std::printf("%d\n", setup.emud);
    std::fflush(stdout);
    kill(getpid(), SIGKILL);
  });
  const int child = std::stoi(client.line());
  const int emud = std::stoi(client.line());
  CHECK(WIFSIGNALED(client.wait()));
  CHECK(eventually([&] { return !is_running(emud); }));
  CHECK(is_running(child));
  kill(child, SIGKILL);
}
