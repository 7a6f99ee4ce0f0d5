// One context of this process on one device, and all that lives in it. Opened by its
// construction; its destruction drains the queues and gives everything back in order,
// unless `end` has ended the work before.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

#include "allocator.h"
#include "modules.h"
#include "pinned_cache.h"
#include "queue.h"
#include "staging.h"
#include "timestamps.h"

namespace emurt {

class Process;

struct Counters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> copies_to_device{0};
  std::atomic<uint64_t> copies_from_device{0};
  std::atomic<uint64_t> copies_on_device{0};
  std::atomic<uint64_t> bytes_to_device{0};
  std::atomic<uint64_t> bytes_from_device{0};
  std::atomic<uint64_t> bytes_on_device{0};
  std::atomic<uint64_t> module_hits{0};
  std::atomic<uint64_t> module_misses{0};
  std::atomic<uint64_t> synchronizations{0};
};

class Context {
 public:
  Context(Process& process, const emu_driver_api& api, emu_device* device, int32_t index, Counters& counters);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Throws what the driver's status means. After a fault that ended the context, every
  // call gives that first fault, with the command that caused it.
  void check(emu_status status) {
    if (status != EMU_OK) raise(status);
  }
  // Ends what runs, for good, and lets all who wait for it go with EMU_ERROR_STALE_HANDLE.
  void end();

  // For calls that need not ask the driver: throws if the context is lost. A lost default stream is not that.
  void require_alive();

  Queue& default_queue() { return *default_queue_; }
  // A queue for a new stream: one that a destroyed stream left and that is done with what it had, or a new one. Where
  // there can be no more, it waits for what a destroyed stream left undone.
  Queue& take_queue(int32_t priority);
  void give_back_queue(Queue& queue);
  // Waits for all queues, and then throws what the first lost one says.
  void drain();
  // Waits until the device touches nothing any more that was submitted up to now.
  void settle();
  uint64_t stream_id_of(uint32_t driver_queue) const;

  Process& process;
  const emu_driver_api& api;
  emu_context* handle = nullptr;
  const int32_t index;
  uint64_t clock_hertz = 1;
  Counters& counters;  // of the device: they outlive a reset

  Allocator allocator;
  PinnedCache pinned;
  Staging to_device;
  Staging from_device;
  Timestamps timestamps;
  Modules modules;

 private:
  [[noreturn]] void raise(emu_status status);
  emurt_error translate(const emu_error& error) const;
  Queue& add_queue(int32_t priority);
  Queue* take_idle(int32_t priority);  // null: there is none
  Queue* take_idle_that_is_done(int32_t priority);
  Queue& restarted(Queue& queue);
  void put_idle(Queue& queue);
  template <typename Body>
  void for_each_queue(Body body);

  mutable std::mutex queues_mutex_;
  std::deque<Queue> queues_;
  std::vector<Queue*> idle_queues_;
  Queue* default_queue_ = nullptr;

  std::mutex fault_mutex_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> lost_{false};
  emurt_error fault_{};  // the first that ended the context; meaningful when lost_
};

}  // namespace emurt
