// A queue of the driver, as streams use it: submission with the thread's correlation,
// the number of the last command, and points on its timeline.
//
// A queue lives as long as its context. Destroying a stream gives its queue back for
// the next stream, so a point never outlives what it points at.
#pragma once

#include <atomic>
#include <cstdint>

#include "correlation.h"
#include "failure.h"

namespace emurt {

class Context;

class Queue {
 public:
  Queue(Context& context, emu_queue* handle, uint64_t stream_id, int32_t priority);

  Context& context;
  emu_queue* const handle;
  const uint64_t stream_id;  // 0: the default stream
  const int32_t priority;

  // `command(handle, correlation, &sequence)` is one queue_* call of the driver.
  // Gives the command's number; in blocking mode only after it is done.
  template <typename Command>
  uint64_t submit(Command command) {
    uint64_t sequence = 0;
    check(command(handle, correlation_top(), &sequence));
    uint64_t seen = last_.load(std::memory_order_relaxed);
    while (seen < sequence && !last_.compare_exchange_weak(seen, sequence, std::memory_order_release)) {
    }
    if (blocking_) wait(sequence);
    return sequence;
  }

  // Number of the last command that a finished `submit` of any thread gave.
  uint64_t last() const { return last_.load(std::memory_order_acquire); }

  bool passed(uint64_t sequence);
  void wait(uint64_t sequence);
  void drain() { wait(last()); }

 private:
  void check(emu_status status);

  std::atomic<uint64_t> last_{0};
  std::atomic<uint64_t> completed_{0};  // what `passed` has seen; saves asking the driver again
  const bool blocking_;
};

// A place on a queue's timeline. The empty point has always been passed.
struct Point {
  Queue* queue = nullptr;
  uint64_t sequence = 0;

  static Point now(Queue& queue) { return {&queue, queue.last()}; }
  bool passed() const { return queue == nullptr || queue->passed(sequence); }
  void wait() const {
    if (queue != nullptr) queue->wait(sequence);
  }
};

}  // namespace emurt
