#include "timestamps.h"

#include <iterator>

#include "context.h"

namespace emurt {

namespace {
constexpr uint64_t kChunk = 1024;
}

Timestamps::~Timestamps() {
  for (emu_timestamp* chunk : chunks_) context_.pinned.give_back(chunk);
}

Timestamps::Taken Timestamps::take(Queue& queue) {
  const Slots::iterator lent = lend();
  emu_timestamp* const slot = lent->slot;
  // Any way out gives the slot back, with the point up to which the device may write it.
  auto give_back = [this, &queue, lent](const emu_timestamp*) {
    std::lock_guard<std::mutex> lock(mutex_);
    lent->point = Point::now(queue);
    returned_.splice(returned_.end(), lent_, lent);
  };
  std::shared_ptr<const emu_timestamp> owner(slot, give_back);
  const Point point = {&queue, queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
             return context_.api.queue_timestamp(handle, slot, correlation, sequence);
           })};
  return {std::move(owner), point};
}

Timestamps::Slots::iterator Timestamps::lend() {
  std::lock_guard<std::mutex> lock(mutex_);
  while (!returned_.empty() && returned_.front().point.settled()) {
    free_.splice(free_.end(), returned_, returned_.begin());
  }
  if (free_.empty()) {
    Slots made(kChunk / sizeof(emu_timestamp));
    chunks_.reserve(chunks_.size() + 1);
    auto* slot = static_cast<emu_timestamp*>(context_.pinned.take(kChunk));
    chunks_.push_back(slot);
    for (Slot& each : made) each.slot = slot++;
    free_.splice(free_.end(), made);
  }
  lent_.splice(lent_.end(), free_, free_.begin());
  return std::prev(lent_.end());
}

}  // namespace emurt
