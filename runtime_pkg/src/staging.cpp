#include "staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "context.h"

namespace emurt {

namespace {
constexpr uint64_t kAlign = 64;
}

// Gives its region back on every way out; without a point it is free at once.
class Staging::Lease {
 public:
  Lease() = default;
  Lease(Staging& staging, Region* region) : staging_(&staging), region_(region) {}
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept {
    std::swap(staging_, other.staging_);
    std::swap(region_, other.region_);
    std::swap(point, other.point);
    return *this;
  }
  ~Lease() {
    if (region_ != nullptr) staging_->release(region_, point);
  }

  explicit operator bool() const { return region_ != nullptr; }
  char* data() const { return staging_->ring_ + region_->begin; }

  Point point;

 private:
  Staging* staging_ = nullptr;
  Region* region_ = nullptr;
};

Staging::~Staging() { context_.pinned.give_back(ring_); }

void Staging::to_device(Queue& queue, uint64_t address, const char* source, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t piece = std::min(bytes, kPiece);
    Lease lease(*this, acquire(piece, true));
    memcpy(lease.data(), source, piece);
    lease.point = {&queue, queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
                     return context_.api.queue_copy_to_device(handle, address, lease.data(), piece, correlation,
                                                              sequence);
                   })};
    address += piece;
    source += piece;
    bytes -= piece;
  }
}

void Staging::from_device(Queue& queue, char* target, uint64_t address, uint64_t bytes) {
  auto start = [&](uint64_t piece, bool wait) {
    Region* region = acquire(piece, wait);
    if (region == nullptr) return Lease();
    Lease lease(*this, region);
    lease.point = {&queue, queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
                     return context_.api.queue_copy_from_device(handle, lease.data(), address, piece, correlation,
                                                                sequence);
                   })};
    address += piece;
    return lease;
  };
  uint64_t first_bytes = std::min(bytes, kPiece);
  Lease first = start(first_bytes, true);
  while (bytes > 0) {
    // The second piece is not waited for: two calls that each hold one could wait for ever.
    const uint64_t next_bytes = std::min(bytes - first_bytes, kPiece);
    Lease second = next_bytes > 0 ? start(next_bytes, false) : Lease();
    first.point.wait();
    memcpy(target, first.data(), first_bytes);
    target += first_bytes;
    bytes -= first_bytes;
    first = Lease(std::move(second));
    if (!first && bytes > 0) first = start(next_bytes, true);
    first_bytes = next_bytes;
  }
}

bool Staging::place(uint64_t bytes, uint64_t* begin) const {
  if (regions_.empty()) {
    *begin = 0;
    return bytes <= kRing;
  }
  const uint64_t oldest = regions_.front().begin;
  const uint64_t newest = regions_.back().end;
  if (newest > oldest) {  // used part in one piece: room behind it, or in front
    *begin = kRing - newest >= bytes ? newest : 0;
    return kRing - newest >= bytes || oldest >= bytes;
  }
  *begin = newest;
  return oldest - newest >= bytes;
}

Staging::Region* Staging::acquire(uint64_t bytes, bool wait) {
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  std::unique_lock<std::mutex> lock(mutex_);
  if (ring_ == nullptr) ring_ = static_cast<char*>(context_.pinned.take(kRing));
  while (true) {
    while (!regions_.empty() && !regions_.front().held && regions_.front().point.settled()) regions_.pop_front();
    uint64_t begin = 0;
    if (place(bytes, &begin)) {
      regions_.push_back({begin, begin + bytes, true, {}});
      return &regions_.back();
    }
    if (!wait) return nullptr;
    if (regions_.front().held) {
      released_.wait(lock);
    } else {
      const Point point = regions_.front().point;
      lock.unlock();
      point.settle();
      lock.lock();
    }
  }
}

void Staging::release(Region* region, const Point& point) {
  std::lock_guard<std::mutex> lock(mutex_);
  region->held = false;
  region->point = point;
  released_.notify_all();
}

}  // namespace emurt
