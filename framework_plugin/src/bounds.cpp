#include "bounds.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "counts.h"

namespace emu {
namespace {

constexpr int kOperatorBits = 16;  // of `told`; the launch's number is above

struct Record {
  emurt_stream stream;
  uint64_t address;
  int launching = 0;                                   // programs that have the address and are not launched yet
  std::array<uint64_t, BoundsRecord::kEntries> told{};  // to the user already
};

struct State {
  std::mutex mutex;
  std::vector<Record> records;
  emurt_stream reader = nullptr;  // of its own, so that reading waits for nobody's work
  uint64_t launches = 0;
  std::atomic<uint64_t> bytes_read{0};
};
State& state(int device) {
  static auto* all = new std::array<State, kMaxDevices>();
  return (*all)[static_cast<size_t>(device)];
}

std::vector<Record>::iterator find(State& s, emurt_stream stream) {
  return std::find_if(s.records.begin(), s.records.end(), [&](const Record& r) { return r.stream == stream; });
}

// What was made before a reset of the device is gone with it.
void drop_stale(int device, State& s) {
  const auto stale = [](const Record& r) { return api().memory_check(r.address) != EMURT_OK; };
  s.records.erase(std::remove_if(s.records.begin(), s.records.end(), stale), s.records.end());
  if (s.reader != nullptr && api().stream_id(device, s.reader) == UINT64_MAX) s.reader = nullptr;
}

BoundsRecord read(int device, State& s, const Record& record) {
  if (s.reader == nullptr) check(api().stream_create(device, 0, &s.reader), "making a stream");
  BoundsRecord found{};
  check(api().copy(device, s.reader, EMURT_COPY_FROM_DEVICE, &found, record.address, 0, sizeof found),
        "copy from the device");
  s.bytes_read.fetch_add(sizeof found, std::memory_order_relaxed);
  return found;
}

// The entry that was told first and is not known to the user yet, or -1.
int news(const Record& record, const BoundsRecord& found) {
  int entry = -1;
  for (int k = 0; k < BoundsRecord::kEntries; ++k)
    if (found.told[k] != 0 && found.told[k] != record.told[static_cast<size_t>(k)] &&
        (entry < 0 || found.told[k] < found.told[entry]))
      entry = k;
  return entry;
}

// On the record's own stream: a launch under way may write its entry again, one that comes later finds it empty.
void clear(int device, Record& record, const BoundsRecord& found) {
  for (size_t k = 0; k < record.told.size(); ++k)
    if (found.told[k] != 0) record.told[k] = found.told[k];
  check(api().fill(device, record.stream, record.address + offsetof(BoundsRecord, told), 0, sizeof found.told), "fill");
}

}  // namespace

uint64_t bounds_bytes_read(int device) noexcept { return state(device).bytes_read.load(std::memory_order_relaxed); }

BoundsLaunch::BoundsLaunch(int device) : device_(device), stream_(current_stream(device)) {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  drop_stale(device, s);
  auto found = find(s, stream_);
  if (found == s.records.end()) {
    uint64_t made = 0;
    check(api().memory_alloc(device, sizeof(BoundsRecord), stream_, &made), "memory allocation");
    found = s.records.insert(found, Record{stream_, made});
    check(api().fill(device, stream_, made, 0, sizeof(BoundsRecord)), "fill");
  }
  ++found->launching;
  record_ = found->address;
  TORCH_INTERNAL_ASSERT(outermost_operator() < (1 << kOperatorBits));
  told_ = ++s.launches << kOperatorBits | outermost_operator();
}

BoundsLaunch::~BoundsLaunch() {
  State& s = state(device_);
  const std::lock_guard lock(s.mutex);
  const auto found = find(s, stream_);
  if (found != s.records.end() && found->address == record_) --found->launching;
}

void BoundsLaunch::launched() const {
  static const bool blocking = [] {
    const char* value = std::getenv("EMURT_BLOCKING");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  if (blocking) check_bounds(device_);
}

void check_bounds(int device) {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  if (s.records.empty()) return;
  drop_stale(device, s);
  for (size_t at = 0; at < s.records.size();) {
    Record& record = s.records[at];
    int32_t done = 0;  // asked before the record is read
    check(api().stream_query(device, record.stream, &done), "stream query");
    BoundsRecord found = read(device, s, record);
    const int entry = news(record, found);
    if (entry >= 0) {
      found = read(device, s, record);  // whole now: its `told` was written last
      clear(device, record, found);
    }
    if (done != 0 && record.launching == 0) {
      check(api().memory_free(device, record.address), "freeing memory");
      s.records.erase(s.records.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      ++at;
    }
    if (entry < 0) continue;
    const char* name = counter_name(found.told[entry] & ((1 << kOperatorBits) - 1));
    TORCH_CHECK_INDEX(false, "emu: aten::", name, ": index ", found.index[entry],
                      " is out of bounds for a dimension of size ", found.bound[entry],
                      "; that element was left out. EMURT_BLOCKING=1 makes the failing call itself raise");
  }
}

}  // namespace emu
