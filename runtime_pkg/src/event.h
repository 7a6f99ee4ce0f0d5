// A point on a stream, kept under a handle; with timing, a timestamp of the device too.
#pragma once

#include <mutex>

#include "timestamps.h"

namespace emurt {

class Event {
 public:
  Event(Context& context, bool timing) : context_(context), timing_(timing) {}

  Context& context() const { return context_; }
  void record(Queue& queue);
  Point point() const;

  struct Elapsed {
    double device_milliseconds;
    double host_milliseconds;
  };
  // Waits for both. Throws when one has no timestamp, or they are of two devices.
  static Elapsed elapsed(const Event& start, const Event& end);

 private:
  Timestamps::Taken taken() const;

  Context& context_;
  const bool timing_;
  mutable std::mutex mutex_;
  Timestamps::Taken taken_;
};

}  // namespace emurt
