#include "queue.h"

#include <cstdlib>
#include <cstring>

#include "context.h"

namespace emurt {

namespace {
bool blocking_mode() {
  const char* value = getenv("EMURT_BLOCKING");
  return value != nullptr && strcmp(value, "1") == 0;
}
}  // namespace

Queue::Queue(Context& context_, emu_queue* handle_, uint64_t stream_id_, int32_t priority_)
    : context(context_), handle(handle_), stream_id(stream_id_), priority(priority_), blocking_(blocking_mode()) {}

void Queue::check(emu_status status) { context.check(status); }

bool Queue::passed(uint64_t sequence) {
  if (sequence == 0) return true;
  const emu_status status = context.api.queue_synchronize(handle, sequence, 0);
  if (status == EMU_ERROR_TIMEOUT) return false;
  check(status);
  return true;
}

void Queue::wait(uint64_t sequence) { check(context.api.queue_synchronize(handle, sequence, UINT64_MAX)); }

bool Queue::settled(uint64_t sequence) {
  if (settled_.load(std::memory_order_acquire) >= sequence) return true;
  uint64_t value = 0;
  const emu_status status = context.api.queue_completed(handle, &value);
  if (is_of_this_queue(status)) return true;
  check(status);
  uint64_t seen = settled_.load(std::memory_order_relaxed);
  while (seen < value && !settled_.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
  return value >= sequence;
}

void Queue::settle(uint64_t sequence) {
  const emu_status status = context.api.queue_synchronize(handle, sequence, UINT64_MAX);
  if (!is_of_this_queue(status)) check(status);
}

emu_status Queue::reset_if_lost() {
  uint64_t value = 0;
  // Anything else that is wrong is found by who uses the queue.
  if (!is_of_this_queue(context.api.queue_completed(handle, &value))) return EMU_OK;
  const emu_status status = context.api.queue_reset(handle);
  if (status == EMU_OK) last_.store(0, std::memory_order_release);
  return status;
}

bool Queue::is_done() {
  uint64_t value = 0;
  return context.api.queue_completed(handle, &value) != EMU_OK || value >= last();
}

bool Queue::is_of_this_queue(emu_status status) const {
  if (status == EMU_OK) return false;
  emu_error error{};
  error.size = sizeof error;
  context.api.last_error(&error);
  return error.scope == EMU_SCOPE_QUEUE;
}

}  // namespace emurt
