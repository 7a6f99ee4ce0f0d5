#include "bounds.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "counts.h"

namespace emu {
namespace {

struct State {
  std::mutex mutex;
  uint64_t address = 0;
  emurt_event alive = nullptr;         // stale, with the memory, once the device was reset
  std::vector<emurt_stream> unchecked;  // streams with a program that may have written the record
};
State& state(int device) {
  static auto* all = new std::array<State, kMaxDevices>();
  return (*all)[static_cast<size_t>(device)];
}

bool usable(const State& s) {
  int32_t done = 0;
  return s.alive != nullptr && api().event_query(s.alive, &done) == EMURT_OK;
}

void make(int device, State& s) {
  s.unchecked.clear();
  s.alive = nullptr;
  const emurt_stream stream = current_stream(device);
  check(api().memory_alloc(device, sizeof(BoundsRecord), stream, &s.address), "memory allocation");
  check(api().fill(device, stream, s.address, 0, sizeof(BoundsRecord)), "fill");
  check(api().stream_synchronize(device, stream), "fill");  // any stream may write it from here on
  check(api().event_create(device, 0, &s.alive), "making an event");
}

// With the mutex held. The record is empty again afterwards.
void read(int device, const State& s) {
  if (!usable(s)) return;
  const emurt_stream stream = current_stream(device);
  BoundsRecord found{};
  check(api().copy(device, stream, EMURT_COPY_FROM_DEVICE, &found, s.address, 0, sizeof found), "copy from the device");
  if (found.operation == 0) return;
  check(api().fill(device, stream, s.address, 0, sizeof found), "fill");
  check(api().stream_synchronize(device, stream), "fill");
  TORCH_CHECK_INDEX(false, "emu: aten::", counter_name(found.operation), ": index ", found.index,
                    " is out of bounds for a dimension of size ", found.bound,
                    "; that element was left out. EMURT_BLOCKING=1 makes the failing call itself raise");
}

}  // namespace

uint64_t bounds_record(int device) {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  if (!usable(s)) make(device, s);
  return s.address;
}

void check_bounds(int device, emurt_stream stream) {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  const auto found = std::find(s.unchecked.begin(), s.unchecked.end(), stream);
  if (found == s.unchecked.end()) return;
  s.unchecked.erase(found);
  read(device, s);
}

void check_bounds(int device) {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  if (s.unchecked.empty()) return;
  s.unchecked.clear();
  read(device, s);
}

void bounds_launched(int device) {
  static const bool blocking = [] {
    const char* value = std::getenv("EMURT_BLOCKING");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  const emurt_stream stream = current_stream(device);
  {
    State& s = state(device);
    const std::lock_guard lock(s.mutex);
    if (std::find(s.unchecked.begin(), s.unchecked.end(), stream) == s.unchecked.end()) s.unchecked.push_back(stream);
  }
  if (blocking) check_bounds(device, stream);
}

}  // namespace emu
