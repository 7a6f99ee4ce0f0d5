#include "context.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "process.h"

namespace emurt {

Context::Context(Process& process_, const emu_driver_api& api_, emu_device* device, int32_t index_,
                 Counters& counters_)
    : process(process_),
      api(api_),
      index(index_),
      counters(counters_),
      allocator(*this),
      pinned(*this),
      to_device(*this),
      from_device(*this),
      timestamps(*this),
      modules(*this) {
  check(api.context_create(device, &handle));
  try {
    emu_device_info info{};
    info.size = sizeof info;
    check(api.device_info(device, &info));
    clock_hertz = info.clock_hertz;
    default_queue_ = &add_queue(0);
    if (process.activity_on()) check(api.activity_enable(handle, 1));
  } catch (...) {
    api.context_destroy(handle);
    throw;
  }
}

// The driver's context ends its queues, programs and memory; before that, what was
// submitted is done, so that pinned memory is not written after it went.
Context::~Context() {
  if (ended_) return;
  try {
    drain();
  } catch (const Failure&) {
    // Lost or gone: there is nothing left to wait for.
  }
  end();
}

void Context::end() {
  if (ended_.exchange(true)) return;
  process.activity().keep(*this);
  // Where the host was short for a moment: nobody would destroy it later.
  if (api.context_destroy(handle) == EMU_ERROR_HOST) api.context_destroy(handle);
}

void Context::require_alive() {
  if (lost_.load(std::memory_order_acquire)) raise(EMU_ERROR_CONTEXT_LOST);
  default_queue_->settled(UINT64_MAX);
}

// Without the list's lock: what the driver says is told with the ids of streams, which takes it.
Queue& Context::take_queue(int32_t priority) {
  // What a destroyed stream left running may be lost yet, which is no matter of the next stream.
  if (Queue* const done = take_idle_that_is_done(priority)) return restarted(*done);
  Queue* queue = nullptr;
  try {
    return add_queue(priority);
  } catch (const Failure& failure) {
    if (failure.error().status == EMU_ERROR_OUT_OF_MEMORY) queue = take_idle(priority);
    if (queue == nullptr) throw;
  }
  try {
    queue->settle(queue->last());  // the work of a destroyed stream still ends
  } catch (...) {
    put_idle(*queue);
    throw;
  }
  return restarted(*queue);
}

Queue& Context::restarted(Queue& queue) {
  const emu_status status = queue.reset_if_lost();
  if (status != EMU_OK) put_idle(queue);
  check(status);
  return queue;
}

void Context::give_back_queue(Queue& queue) {
  queue.reset_if_lost();  // where that fails, `take_queue` does it, or says why not
  put_idle(queue);
}

Queue* Context::take_idle(int32_t priority) {
  std::lock_guard<std::mutex> lock(queues_mutex_);
  const auto idle = std::find_if(idle_queues_.begin(), idle_queues_.end(),
                                 [&](const Queue* queue) { return queue->priority == priority; });
  if (idle == idle_queues_.end()) return nullptr;
  Queue* const queue = *idle;
  idle_queues_.erase(idle);
  return queue;
}

// Looks at each once, from the one that was given back first.
Queue* Context::take_idle_that_is_done(int32_t priority) {
  size_t looks = 0;
  {
    std::lock_guard<std::mutex> lock(queues_mutex_);
    looks = idle_queues_.size();
  }
  for (; looks > 0; --looks) {
    Queue* const queue = take_idle(priority);
    if (queue == nullptr || queue->is_done()) return queue;
    put_idle(*queue);
  }
  return nullptr;
}

void Context::put_idle(Queue& queue) {
  std::lock_guard<std::mutex> lock(queues_mutex_);
  idle_queues_.push_back(&queue);
}

// The first queue of a context is the default stream's.
Queue& Context::add_queue(int32_t priority) {
  emu_queue* queue = nullptr;
  check(api.queue_create(handle, EMU_QUEUE_COMPUTE, priority, &queue));
  std::lock_guard<std::mutex> lock(queues_mutex_);
  try {
    idle_queues_.reserve(queues_.size() + 1);  // for when it is given back
    return queues_.emplace_back(*this, queue, queues_.size(), priority);
  } catch (...) {
    api.queue_destroy(queue);
    throw;
  }
}

// Without the list's lock while `body` waits.
template <typename Body>
void Context::for_each_queue(Body body) {
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(queues_mutex_);
    count = queues_.size();
  }
  for (size_t index_of = 0; index_of < count; ++index_of) {
    Queue* queue = nullptr;
    {
      std::lock_guard<std::mutex> lock(queues_mutex_);
      queue = &queues_[index_of];
    }
    body(*queue);
  }
}

void Context::drain() {
  std::optional<Failure> first;
  for_each_queue([&](Queue& queue) {
    try {
      queue.drain();
    } catch (const Failure& failure) {
      if (!first) first = failure;
    }
  });
  if (first) throw Failure(*first);
}

void Context::settle() {
  for_each_queue([](Queue& queue) { queue.settle(queue.last()); });
}

uint64_t Context::stream_id_of(uint32_t driver_queue) const {
  if (driver_queue == UINT32_MAX) return kNoStream;  // a record that is not of a queue
  std::lock_guard<std::mutex> lock(queues_mutex_);
  for (const Queue& queue : queues_) {
    if (api.queue_id(queue.handle) == driver_queue) return queue.stream_id;
  }
  return kNoStream;
}

emurt_error Context::translate(const emu_error& error) const {
  emurt_error out = make_error(error.status, error.scope, index, error.cause, error.mend);
  out.command = error.command;
  out.address = error.address;
  if (error.queue != UINT32_MAX) out.stream = stream_id_of(error.queue);
  snprintf(out.program, sizeof out.program, "%s", error.program);
  if (error.scope == EMU_SCOPE_QUEUE) {
    snprintf(out.mend, sizeof out.mend,
             "Destroy the stream and make another; where it is the default stream, reset the device");
  }
  if (error.status == EMU_ERROR_PAGE_FAULT && process.old_memory.contains(error.address)) {
    snprintf(out.mend, sizeof out.mend, "The address is from before a reset of its device: allocate the memory again");
  }
  return out;
}

void Context::raise(emu_status status) {
  if (ended_) {
    fail(EMU_ERROR_STALE_HANDLE, index, text("device %d was reset while the call was under way", index),
         "Make again what the call was for");
  }
  std::lock_guard<std::mutex> lock(fault_mutex_);
  if (status == EMU_ERROR_CONTEXT_LOST && lost_.load(std::memory_order_acquire)) throw Failure(fault_);
  emu_error error{};
  error.size = sizeof error;
  api.last_error(&error);
  if (status == EMU_ERROR_CONTEXT_LOST && error.command == 0 && default_queue_ != nullptr) {
    // A call that only says "lost": the timeline tells the fault itself.
    uint64_t value = 0;
    if (api.queue_completed(default_queue_->handle, &value) != EMU_OK) api.last_error(&error);
  }
  const emurt_error out = translate(error);
  if (out.scope >= EMU_SCOPE_CONTEXT && handle != nullptr && default_queue_ != nullptr) {
    if (!lost_.load(std::memory_order_relaxed)) fault_ = out;
    lost_.store(true, std::memory_order_release);
  }
  throw Failure(out);
}

}  // namespace emurt
