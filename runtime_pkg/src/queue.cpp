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
  if (completed_.load(std::memory_order_acquire) >= sequence) return true;
  uint64_t value = 0;
  check(context.api.queue_completed(handle, &value));
  uint64_t seen = completed_.load(std::memory_order_relaxed);
  while (seen < value && !completed_.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
  return value >= sequence;
}

void Queue::wait(uint64_t sequence) { check(context.api.queue_synchronize(handle, sequence, UINT64_MAX)); }

}  // namespace emurt
