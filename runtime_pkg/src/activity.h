// Activity records of all contexts of the process, read from the driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

#include "failure.h"

namespace emurt {

class Process;
class Context;

class Activity {
 public:
  bool on() const { return on_.load(); }
  void enable(Process& process, bool on);
  // Oldest first, by the time of their end. `dropped` counts since the last read.
  size_t read(Process& process, emurt_activity* out, size_t capacity, uint64_t* dropped);
  // What a context recorded is there when it has ended.
  void keep(Context& context) noexcept;

 private:
  void collect(Context& context);

  std::atomic<bool> on_{false}, was_on_{false};
  std::mutex mutex_;
  std::deque<emurt_activity> records_;  // read from the driver and not yet handed out
  uint64_t dropped_ = 0;
};

}  // namespace emurt
