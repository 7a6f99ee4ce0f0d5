// Pinned memory that was handed out when its device was reset. It is plain memory of the
// process from then on, and goes when the last of its blocks is given back.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "failure.h"

namespace emurt {

class OldPinned {
 public:
  void keep(const emu_driver_api& api, emu_context* handle, char* start, uint64_t block_bytes, std::vector<bool> live);

  // False when `pointer` is in none of it. Throws when it is not the start of a live block.
  bool give_back(void* pointer);

 private:
  struct Slab {
    const emu_driver_api* api;
    emu_context* handle;
    uint64_t block_bytes;
    std::vector<bool> live;
  };

  std::mutex mutex_;
  std::map<char*, Slab> slabs_;  // by start
};

}  // namespace emurt
