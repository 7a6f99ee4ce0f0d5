#include "old_memory.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace emurt {

void OldMemory::keep(const std::vector<Allocator::Range>& ranges) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  for (const auto& [start, bytes] : ranges) {
    ranges_.emplace(start, start + bytes);
    end_.store(std::max(end_.load(), start + bytes));
  }
}

bool OldMemory::contains(uint64_t address) const {
  if (address >= end_.load(std::memory_order_acquire)) return false;
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto next = ranges_.upper_bound(address);
  return next != ranges_.begin() && address < std::prev(next)->second;
}

bool OldMemory::free(uint64_t address) {
  if (address >= end_.load(std::memory_order_acquire)) return false;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  return ranges_.erase(address) != 0;
}

}  // namespace emurt
