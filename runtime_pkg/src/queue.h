// A queue of the driver, as streams use it: submission with the thread's correlation,
// the number of the last command, and points on its timeline.
//
// A queue lives as long as its context. Destroying a stream gives its queue back for
// the next stream, so a point never outlives what it points at.
//
// That a command is done, and that the device will not touch what it uses any more, are two
// things: a queue that is lost does no more commands, and the timeline of one that was reset
// stands past those that were given up.
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

  // Number of the last command that a finished `submit` of any thread gave; 0 since a reset.
  uint64_t last() const { return last_.load(std::memory_order_acquire); }

  // The work up to `sequence` is done. Both throw when it never will be.
  bool passed(uint64_t sequence);
  void wait(uint64_t sequence);
  void drain() { wait(last()); }

  // It is done or given up. Both throw only what is wrong beyond this queue.
  bool settled(uint64_t sequence);
  void settle(uint64_t sequence);

  // For a queue that no stream has: it holds nothing that the device has yet to do, or is lost, alone or with its
  // context.
  bool is_done();
  // For a queue that no stream has: gives up what a lost one still held, so that it runs again.
  emu_status reset_if_lost();

 private:
  void check(emu_status status);
  bool is_of_this_queue(emu_status status) const;

  std::atomic<uint64_t> last_{0};
  std::atomic<uint64_t> settled_{0};  // what `settled` has seen; saves asking the driver again
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
  bool settled() const { return queue == nullptr || queue->settled(sequence); }
  void settle() const {
    if (queue != nullptr) queue->settle(sequence);
  }
};

}  // namespace emurt
