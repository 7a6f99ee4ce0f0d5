// Cached pinned host memory, one a context.
//
// Blocks come in powers of two from 512 bytes. Up to 1 MiB they are cut from slabs of
// 2 MiB, so that small buffers don't cost the driver a mapping each; above, each is a
// mapping of its own. A block given back is not handed out again before the commands
// that use it are done; memory goes back to the driver when the driver has no more, and at the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "queue.h"

namespace emurt {

class PinnedCache {
 public:
  explicit PinnedCache(Context& context) : context_(context) {}
  ~PinnedCache();  // after the context has ended; what is handed out becomes OldPinned

  void* take(uint64_t bytes);
  void give_back(void* pointer);

  // True when [pointer, pointer + bytes) is inside one block that is handed out.
  // Throws for a range that starts in one and leaves it, or that was given back. With `user`, the queue that will use
  // it, `used` needs no memory: what was submitted by then can't be taken back.
  bool contains(const void* pointer, uint64_t bytes, Queue* user = nullptr);

  // True when `pointer` is in memory of this cache, handed out or not.
  bool maps(const void* pointer);

  // A command at `point` uses the block that holds `pointer`.
  void used(const void* pointer, const Point& point);

 private:
  enum class State { kFree, kLive };
  struct Block {
    State state = State::kFree;
    std::vector<Point> users;  // the last command of each queue
  };
  struct Slab {
    uint64_t block_bytes;
    std::vector<Block> blocks;
  };
  struct Place {
    char* start;
    uint64_t bytes;
    Block* block;
  };

  Place find(const void* pointer);
  static void add_user(Block& block, const Point& point);
  char* map_slab(uint64_t bytes);
  void add_slab(uint64_t block_bytes);
  char* reuse(uint64_t block_bytes);
  void release_idle();

  Context& context_;
  std::mutex mutex_;
  std::map<char*, Slab> slabs_;                     // by start
  std::map<uint64_t, std::vector<char*>> returned_;  // by block size; oldest first
};

}  // namespace emurt
