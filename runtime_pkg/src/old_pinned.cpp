#include "old_pinned.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace emurt {

void OldPinned::keep(const emu_driver_api& api, emu_context* handle, char* start, uint64_t block_bytes,
                     std::vector<bool> live) {
  std::lock_guard<std::mutex> lock(mutex_);
  slabs_.emplace(start, Slab{&api, handle, block_bytes, std::move(live)});
}

bool OldPinned::give_back(void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = slabs_.upper_bound(static_cast<char*>(pointer));
  if (next == slabs_.begin()) return false;
  auto found = std::prev(next);
  auto& [start, slab] = *found;
  const uint64_t offset = static_cast<uint64_t>(static_cast<char*>(pointer) - start);
  const uint64_t index = offset / slab.block_bytes;
  if (index >= slab.live.size()) return false;
  if (offset % slab.block_bytes != 0 || !slab.live[index]) {
    fail(EMU_ERROR_INVALID_ARGUMENT, -1,
         text("host_free: %p is not live pinned memory from before the reset of its device", pointer),
         "Free each pointer once, as host_alloc gave it");
  }
  slab.live[index] = false;
  if (std::find(slab.live.begin(), slab.live.end(), true) != slab.live.end()) return true;
  slab.api->host_free(slab.handle, start);
  slabs_.erase(found);
  return true;
}

}  // namespace emurt
