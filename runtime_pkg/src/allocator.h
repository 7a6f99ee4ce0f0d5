// Caching allocator of device memory, one a context.
//
// Memory is taken from the driver in segments and handed out in blocks:
//   request up to 1 MiB      block in a 2 MiB segment, rest split off down to 512 bytes
//   above, below 10 MiB      block in a 20 MiB segment, rest split off above 1 MiB
//   10 MiB and more          a segment of its own, rounded to 2 MiB
// A segment belongs to the queue it was taken for, and its blocks go to that queue
// only: what follows on the queue runs after what used the block before. A block that
// other queues used too waits until they have passed the point of the free.
// Before the driver's refusal becomes an error, all cached segments are given back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "queue.h"

namespace emurt {

class Allocator {
 public:
  explicit Allocator(Context& context) : context_(context) {}

  uint64_t allocate(uint64_t bytes, Queue& queue);
  void free(uint64_t address);
  void record(uint64_t address, Queue& queue);
  void empty_cache();
  emurt_memory_stats stats();
  void reset_peaks();

  struct Range {
    uint64_t start;
    uint64_t bytes;
  };
  std::vector<Range> handed_out();

 private:
  enum class State { kFree, kPending, kLive };
  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  // Free blocks of one queue and size class.
  using Pool = std::set<Block*, BySize>;
  struct Block {
    uint64_t address;
    uint64_t bytes;
    Queue* queue;
    bool small;
    State state;
    Block* before;  // neighbours in the segment, or null
    Block* after;
    std::vector<Queue*> users;  // of `record`, without the owner
    Pool::node_type place = {};  // in its pool, while it is in none: giving memory back needs none
  };
  struct Pending {
    Block* block;
    std::vector<Point> points;
  };

  Pool& pool(const Block& block) { return pools_[{block.queue, block.small}]; }
  Block* add_block(uint64_t address, uint64_t bytes, Queue& queue, bool small);
  void put(Block* block) { pool(*block).insert(std::move(block->place)); }
  void pick(Block* block) { block->place = pool(*block).extract(block); }
  Block* find_free(uint64_t bytes, Queue& queue, bool small);
  Block* take_segment(uint64_t bytes, Queue& queue, bool small);
  bool take_from_driver(uint64_t bytes, uint64_t* address);
  void split(Block* block, uint64_t bytes);
  void make_free(Block* block);
  Block* merge(Block* block, Block* neighbour);
  void collect_pending(bool wait);
  void release_cached();
  Block& live(uint64_t address, const char* call);
  [[noreturn]] void refuse(uint64_t bytes, bool asked);  // the driver, which refused

  Context& context_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Block>> blocks_;  // all, by address
  std::map<std::pair<Queue*, bool>, Pool> pools_;
  std::deque<Pending> pending_;
  emurt_memory_stats stats_{};
};

}  // namespace emurt
