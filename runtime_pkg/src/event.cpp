#include "event.h"

#include "context.h"

namespace emurt {

void Event::record(Queue& queue) {
  Timestamps::Taken taken;
  if (timing_) {
    taken = context_.timestamps.take(queue);
  } else {
    taken.point = Point::now(queue);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  std::swap(taken_, taken);
}

Point Event::point() const { return taken().point; }

Timestamps::Taken Event::taken() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_;
}

Event::Elapsed Event::elapsed(const Event& start, const Event& end) {
  if (&start.context_ != &end.context_) {
    fail(EMU_ERROR_INVALID_ARGUMENT, start.context_.index,
         text("elapsed time between devices %d and %d: their clocks are not related", start.context_.index,
              end.context_.index),
         "Take both events on one device");
  }
  const Timestamps::Taken from = start.taken();
  const Timestamps::Taken to = end.taken();
  for (const Timestamps::Taken& taken : {from, to}) {
    if (taken.slot == nullptr) {
      fail(EMU_ERROR_INVALID_ARGUMENT, start.context_.index,
           "elapsed time needs two events with timing that were recorded",
           "Create the events with timing, and record both first");
    }
    taken.point.wait();
  }
  const auto ticks = static_cast<int64_t>(to.slot->ticks - from.slot->ticks);
  const auto nanoseconds = static_cast<int64_t>(to.slot->nanoseconds - from.slot->nanoseconds);
  const double hertz = static_cast<double>(start.context_.clock_hertz);
  return {static_cast<double>(ticks) * 1e3 / hertz, static_cast<double>(nanoseconds) / 1e6};
}

}  // namespace emurt
