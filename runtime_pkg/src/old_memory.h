// Device memory that was handed out when its device was reset, until it is freed. Its bytes went with
// the reset; what is kept is where it was, so that its owner is told, and nobody else is.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

#include "allocator.h"

namespace emurt {

class OldMemory {
 public:
  void keep(const std::vector<Allocator::Range>& ranges);
  bool contains(uint64_t address) const;
  // False when `address` is not the start of a range; forgets the range otherwise.
  bool free(uint64_t address);

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_;  // start -> end
  std::atomic<uint64_t> end_{0};         // of the last range: what was made later lies above, and takes no lock
};

}  // namespace emurt
