#include "timestamps.h"

#include "context.h"

namespace emurt {

namespace {
constexpr uint64_t kChunk = 4096;
}

Timestamps::~Timestamps() {
  for (emu_timestamp* chunk : chunks_) context_.pinned.give_back(chunk);
}

Timestamps::Taken Timestamps::take(Queue& queue) {
  emu_timestamp* slot = free_slot();
  Point point;
  // Any way out gives the slot back, with the point up to which the device may write it.
  auto give_back = [this, &queue](const emu_timestamp* unused) {
    std::lock_guard<std::mutex> lock(mutex_);
    returned_.push_back({const_cast<emu_timestamp*>(unused), Point::now(queue)});
  };
  std::shared_ptr<const emu_timestamp> owner(slot, give_back);
  point = {&queue, queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
             return context_.api.queue_timestamp(handle, slot, correlation, sequence);
           })};
  return {std::move(owner), point};
}

emu_timestamp* Timestamps::free_slot() {
  std::lock_guard<std::mutex> lock(mutex_);
  while (!returned_.empty() && returned_.front().point.settled()) {
    free_.push_back(returned_.front().slot);
    returned_.pop_front();
  }
  if (free_.empty()) {
    auto* slots = static_cast<emu_timestamp*>(context_.pinned.take(kChunk));
    chunks_.push_back(slots);
    for (uint64_t index = 0; index < kChunk / sizeof(emu_timestamp); ++index) free_.push_back(slots + index);
  }
  emu_timestamp* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace emurt
