#include "pinned_cache.h"

#include <algorithm>
#include <new>

#include "process.h"

namespace emurt {

namespace {

constexpr uint64_t kLeast = 512;
constexpr uint64_t kSlab = 2 * 1024 * 1024;
constexpr uint64_t kLargestInSlab = 1024 * 1024;
constexpr uint64_t kMost = uint64_t{1} << 40;

uint64_t class_of(uint64_t bytes) {
  uint64_t size = kLeast;
  while (size < bytes) size *= 2;
  return size;
}

bool settled(const std::vector<Point>& users) {
  return std::all_of(users.begin(), users.end(), [](const Point& point) { return point.settled(); });
}

}  // namespace

PinnedCache::~PinnedCache() {
  for (auto& [start, slab] : slabs_) {
    const auto is_live = [](const Block& block) { return block.state == State::kLive; };
    if (std::none_of(slab.blocks.begin(), slab.blocks.end(), is_live)) {
      context_.api.host_free(context_.handle, start);
      continue;
    }
    try {
      std::vector<bool> live;
      for (const Block& block : slab.blocks) live.push_back(is_live(block));
      context_.process.old_pinned.keep(context_.api, context_.handle, start, slab.block_bytes, std::move(live));
    } catch (const std::bad_alloc&) {
      // It stays mapped: the caller still has pointers into it.
    }
  }
}

void* PinnedCache::take(uint64_t bytes) {
  if (bytes > kMost) {
    fail(EMU_ERROR_OUT_OF_MEMORY, context_.index,
         text("pinned memory: requested %llu bytes, one block has at most %llu", static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(kMost)),
         "Use pageable memory");
  }
  const uint64_t size = class_of(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  char* start = reuse(size);
  if (start == nullptr) {
    add_slab(size);
    start = reuse(size);
  }
  Place place = find(start);
  place.block->state = State::kLive;
  place.block->users.clear();
  return start;
}

void PinnedCache::give_back(void* pointer) {
  if (pointer == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Place place = find(pointer);
  if (place.block == nullptr || place.start != pointer) {
    fail(EMU_ERROR_INVALID_ARGUMENT, context_.index, text("host_free: %p is not pinned memory of host_alloc", pointer),
         "Give the pointer that host_alloc gave");
  }
  if (place.block->state != State::kLive) {
    fail(EMU_ERROR_INVALID_ARGUMENT, context_.index, text("host_free: %p was freed before (double free)", pointer),
         "Free each pointer once");
  }
  returned_[place.bytes].push_back(place.start);
  place.block->state = State::kFree;
}

bool PinnedCache::contains(const void* pointer, uint64_t bytes, Queue* user) {
  std::lock_guard<std::mutex> lock(mutex_);
  Place place = find(pointer);
  if (place.block == nullptr) return false;
  if (place.block->state != State::kLive) {
    fail(EMU_ERROR_INVALID_ARGUMENT, context_.index, text("%p is pinned memory that was freed", pointer),
         "Keep the buffer until the copy is done");
  }
  if (bytes > place.bytes - static_cast<uint64_t>(static_cast<const char*>(pointer) - place.start)) {
    fail(EMU_ERROR_INVALID_ARGUMENT, context_.index,
         text("%llu bytes at %p leave the pinned block of %llu bytes at %p", static_cast<unsigned long long>(bytes),
              pointer, static_cast<unsigned long long>(place.bytes), static_cast<void*>(place.start)),
         "Copy at most what host_alloc was asked for");
  }
  if (user != nullptr) add_user(*place.block, {user, 0});
  return true;
}

bool PinnedCache::maps(const void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  return find(pointer).block != nullptr;
}

void PinnedCache::used(const void* pointer, const Point& point) {
  std::lock_guard<std::mutex> lock(mutex_);
  Place place = find(pointer);
  if (place.block != nullptr) add_user(*place.block, point);
}

void PinnedCache::add_user(Block& block, const Point& point) {
  for (Point& user : block.users) {
    if (user.queue == point.queue) {
      user.sequence = std::max(user.sequence, point.sequence);
      return;
    }
  }
  block.users.push_back(point);
}

PinnedCache::Place PinnedCache::find(const void* pointer) {
  char* wanted = static_cast<char*>(const_cast<void*>(pointer));
  auto next = slabs_.upper_bound(wanted);
  if (next == slabs_.begin()) return {nullptr, 0, nullptr};
  auto& [start, slab] = *std::prev(next);
  const uint64_t index = static_cast<uint64_t>(wanted - start) / slab.block_bytes;
  if (index >= slab.blocks.size()) return {nullptr, 0, nullptr};
  return {start + index * slab.block_bytes, slab.block_bytes, &slab.blocks[index]};
}

// The oldest block of this size whose commands are done. A block that is still in use
// is not waited for: a new slab is made instead.
char* PinnedCache::reuse(uint64_t block_bytes) {
  std::vector<char*>& blocks = returned_[block_bytes];
  for (auto entry = blocks.begin(); entry != blocks.end(); ++entry) {
    if (!settled(find(*entry).block->users)) continue;
    char* start = *entry;
    blocks.erase(entry);
    return start;
  }
  return nullptr;
}

char* PinnedCache::map_slab(uint64_t bytes) {
  void* start = nullptr;
  emu_status status = context_.api.host_alloc(context_.handle, bytes, &start);
  if (status == EMU_ERROR_OUT_OF_MEMORY || status == EMU_ERROR_HOST) {
    release_idle();
    status = context_.api.host_alloc(context_.handle, bytes, &start);
  }
  context_.check(status);
  return static_cast<char*>(start);
}

void PinnedCache::add_slab(uint64_t block_bytes) {
  const uint64_t bytes = block_bytes <= kLargestInSlab ? kSlab : block_bytes;
  // All that may fail comes before the slab, which would be lost.
  std::map<char*, Slab> one;
  one.emplace(nullptr, Slab{block_bytes, std::vector<Block>(bytes / block_bytes)});
  std::vector<char*>& blocks = returned_[block_bytes];
  size_t all = bytes / block_bytes;
  for (const auto& [at, slab] : slabs_) all += slab.block_bytes == block_bytes ? slab.blocks.size() : 0;
  blocks.reserve(all);  // so that giving a block back needs no memory
  char* start = map_slab(bytes);
  auto entry = one.extract(one.begin());
  entry.key() = start;
  slabs_.insert(std::move(entry));
  for (uint64_t offset = 0; offset < bytes; offset += block_bytes) blocks.push_back(start + offset);
}

// Gives slabs back of which no block is handed out or in use by a command.
void PinnedCache::release_idle() {
  for (auto entry = slabs_.begin(); entry != slabs_.end();) {
    auto& [start, slab] = *entry;
    const bool idle = std::all_of(slab.blocks.begin(), slab.blocks.end(), [](const Block& block) {
      return block.state == State::kFree && settled(block.users);
    });
    if (!idle) {
      ++entry;
      continue;
    }
    std::vector<char*>& blocks = returned_[slab.block_bytes];
    const char* first = start;
    const char* end = start + slab.block_bytes * slab.blocks.size();
    blocks.erase(std::remove_if(blocks.begin(), blocks.end(),
                                [&](char* block) { return block >= first && block < end; }),
                 blocks.end());
    context_.check(context_.api.host_free(context_.handle, start));
    entry = slabs_.erase(entry);
  }
}

}  // namespace emurt
