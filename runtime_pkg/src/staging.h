// The way of pageable memory: a ring of pinned memory, 2 x 4 MiB a direction.
//
// Copies larger than 4 MiB go in pieces, one being copied by the host while the device
// works on the other. Small copies share the ring, so that many of them can be under way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "queue.h"

namespace emurt {

class Staging {
 public:
  static constexpr uint64_t kPiece = 4 * 1024 * 1024;
  static constexpr uint64_t kRing = 2 * kPiece;

  explicit Staging(Context& context) : context_(context) {}
  ~Staging();

  // Returns when `source` may be reused.
  void to_device(Queue& queue, uint64_t address, const char* source, uint64_t bytes);
  // Returns when the data is there.
  void from_device(Queue& queue, char* target, uint64_t address, uint64_t bytes);

 private:
  struct Region {
    uint64_t begin;
    uint64_t end;
    bool held;    // the host works on it
    Point point;  // else: the command that does
  };
  class Lease;

  // Space for `bytes`: waits for older pieces, or gives null when `wait` is false and there is none.
  Region* acquire(uint64_t bytes, bool wait);
  bool place(uint64_t bytes, uint64_t* begin) const;
  void release(Region* region, const Point& point);

  Context& context_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::deque<Region> regions_;  // oldest first; the ring's used part
  char* ring_ = nullptr;
};

}  // namespace emurt
