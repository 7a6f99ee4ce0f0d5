#include "allocator.h"

#include <algorithm>

#include "context.h"

namespace emurt {

namespace {

constexpr uint64_t kMiB = 1024 * 1024;
constexpr uint64_t kGranule = 512;
constexpr uint64_t kSmallLimit = kMiB;       // requests up to here are small
constexpr uint64_t kSmallSegment = 2 * kMiB;
constexpr uint64_t kLargeSegment = 20 * kMiB;
constexpr uint64_t kOwnSegment = 10 * kMiB;  // requests from here get a segment of their own
constexpr uint64_t kOwnRounding = 2 * kMiB;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t segment_bytes(uint64_t bytes) {
  if (bytes <= kSmallLimit) return kSmallSegment;
  return bytes < kOwnSegment ? kLargeSegment : round_up(bytes, kOwnRounding);
}

}  // namespace

bool Allocator::BySize::operator()(const Block* a, const Block* b) const {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

uint64_t Allocator::allocate(uint64_t bytes, Queue& queue) {
  if (bytes == 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > UINT64_MAX - kLargeSegment) refuse(bytes, false);
  const uint64_t rounded = round_up(bytes, kGranule);
  const bool small = rounded <= kSmallLimit;
  collect_pending(false);
  Block* block = find_free(rounded, queue, small);
  if (block == nullptr) block = take_segment(rounded, queue, small);
  if (block == nullptr) {
    // The driver refused: what is cached goes back first, then what streams still hold.
    collect_pending(true);
    block = find_free(rounded, queue, small);
    if (block == nullptr) {
      release_cached();
      block = take_segment(rounded, queue, small);
    }
    if (block == nullptr) refuse(bytes, true);
  }
  try {
    split(block, rounded);
  } catch (...) {
    put(block);
    throw;
  }
  block->state = State::kLive;
  stats_.allocations += 1;
  stats_.allocated_bytes += block->bytes;
  stats_.allocated_peak_bytes = std::max(stats_.allocated_peak_bytes, stats_.allocated_bytes);
  return block->address;
}

void Allocator::free(uint64_t address) {
  if (address == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Block& block = live(address, "memory_free");
  if (!block.users.empty()) {
    Pending pending{&block, {}};
    for (Queue* user : block.users) pending.points.push_back(Point::now(*user));
    pending_.push_back(std::move(pending));
  }
  stats_.frees += 1;
  stats_.allocated_bytes -= block.bytes;
  if (block.users.empty()) {
    make_free(&block);
    return;
  }
  block.users.clear();
  block.state = State::kPending;
}

void Allocator::record(uint64_t address, Queue& queue) {
  if (address == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Block& block = live(address, "memory_record");
  if (block.queue == &queue) return;
  if (std::find(block.users.begin(), block.users.end(), &queue) == block.users.end()) block.users.push_back(&queue);
}

void Allocator::empty_cache() {
  std::lock_guard<std::mutex> lock(mutex_);
  collect_pending(true);
  release_cached();
}

emurt_memory_stats Allocator::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void Allocator::reset_peaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.allocated_peak_bytes = stats_.allocated_bytes;
  stats_.reserved_peak_bytes = stats_.reserved_bytes;
}

std::vector<Allocator::Range> Allocator::handed_out() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Range> ranges;
  for (const auto& [address, block] : blocks_) {
    if (block->state == State::kLive) ranges.push_back({address, block->bytes});
  }
  return ranges;
}

Allocator::Block* Allocator::find_free(uint64_t bytes, Queue& queue, bool small) {
  Pool& free = pools_[{&queue, small}];
  Block least{0, bytes, &queue, small, State::kFree, nullptr, nullptr, {}, {}};
  auto found = free.lower_bound(&least);
  if (found == free.end()) return nullptr;
  Block* block = *found;
  // A segment of its own stays whole: it fits requests of its size, not any smaller one.
  if (block->bytes > kLargeSegment && block->bytes - bytes >= kLargeSegment) return nullptr;
  pick(block);
  return block;
}

Allocator::Block* Allocator::add_block(uint64_t address, uint64_t bytes, Queue& queue, bool small) {
  auto made = std::unique_ptr<Block>(new Block{address, bytes, &queue, small, State::kFree, nullptr, nullptr, {}, {}});
  Pool one;
  made->place = one.extract(one.insert(made.get()).first);
  return blocks_.emplace(address, std::move(made)).first->second.get();
}

Allocator::Block* Allocator::take_segment(uint64_t bytes, Queue& queue, bool small) {
  const uint64_t size = segment_bytes(bytes);
  uint64_t address = 0;
  if (!take_from_driver(size, &address)) return nullptr;
  Block* result = nullptr;
  try {
    result = add_block(address, size, queue, small);
  } catch (...) {
    context_.api.memory_free(context_.handle, address);
    throw;
  }
  stats_.driver_allocations += 1;
  stats_.reserved_bytes += size;
  stats_.reserved_peak_bytes = std::max(stats_.reserved_peak_bytes, stats_.reserved_bytes);
  return result;
}

bool Allocator::take_from_driver(uint64_t bytes, uint64_t* address) {
  emu_status status = context_.api.memory_alloc(context_.handle, bytes, address);
  if (status == EMU_ERROR_OUT_OF_MEMORY) return false;
  context_.check(status);
  return true;
}

// Cuts `block` to `bytes` and makes the rest free, where the rest is worth keeping.
void Allocator::split(Block* block, uint64_t bytes) {
  const uint64_t rest = block->bytes - bytes;
  const bool worth = block->small ? rest >= kGranule : rest > kSmallLimit && block->bytes <= kLargeSegment;
  if (!worth) return;
  Block* tail = add_block(block->address + bytes, rest, *block->queue, block->small);
  tail->before = block;
  tail->after = block->after;
  if (tail->after != nullptr) tail->after->before = tail;
  block->after = tail;
  block->bytes = bytes;
  put(tail);
}

void Allocator::make_free(Block* block) {
  block->state = State::kFree;
  if (block->after != nullptr && block->after->state == State::kFree) {
    pool(*block->after).erase(block->after);
    block = merge(block, block->after);
  }
  if (block->before != nullptr && block->before->state == State::kFree) {
    pick(block->before);
    block = merge(block->before, block);
  }
  put(block);
}

Allocator::Block* Allocator::merge(Block* block, Block* neighbour) {
  block->bytes += neighbour->bytes;
  block->after = neighbour->after;
  if (block->after != nullptr) block->after->before = block;
  blocks_.erase(neighbour->address);
  return block;
}

void Allocator::collect_pending(bool wait) {
  while (!pending_.empty()) {
    Pending& first = pending_.front();
    for (const Point& point : first.points) {
      if (wait) point.settle();
      else if (!point.settled()) return;
    }
    Block* block = first.block;
    pending_.pop_front();
    make_free(block);
  }
}

// Gives every segment that is one free block back to the driver. Commands in the queues
// may still use it, so they end first.
void Allocator::release_cached() {
  context_.settle();
  for (auto& [key, free] : pools_) {
    for (auto entry = free.begin(); entry != free.end();) {
      Block* block = *entry;
      if (block->before != nullptr || block->after != nullptr) {
        ++entry;
        continue;
      }
      context_.check(context_.api.memory_free(context_.handle, block->address));
      entry = free.erase(entry);
      stats_.driver_frees += 1;
      stats_.reserved_bytes -= block->bytes;
      blocks_.erase(block->address);
    }
  }
}

Allocator::Block& Allocator::live(uint64_t address, const char* call) {
  auto next = blocks_.upper_bound(address);
  if (next != blocks_.begin()) {
    Block& block = *std::prev(next)->second;
    if (block.address == address && block.state == State::kLive) return block;
    if (address < block.address + block.bytes) {
      if (block.state != State::kLive) {
        fail(EMU_ERROR_INVALID_ARGUMENT, context_.index,
             text("%s: 0x%llx was freed before (double free)", call, static_cast<unsigned long long>(address)),
             "Free each address once");
      }
      fail(EMU_ERROR_INVALID_ARGUMENT, context_.index,
           text("%s: 0x%llx lies inside the block at 0x%llx, expected its start", call,
                static_cast<unsigned long long>(address), static_cast<unsigned long long>(block.address)),
           "Give the address that memory_alloc gave");
    }
  }
  fail(EMU_ERROR_INVALID_ARGUMENT, context_.index,
       text("%s: 0x%llx is not memory of this process on device %d", call,
            static_cast<unsigned long long>(address), context_.index),
       "Give an address of memory_alloc of the same device, once");
}

void Allocator::refuse(uint64_t bytes, bool asked) {
  stats_.out_of_memory += 1;
  emu_error driver{};
  driver.size = sizeof driver;
  if (asked) context_.api.last_error(&driver);  // names the processes that hold memory
  emu_memory_info info{};
  info.size = sizeof info;
  context_.check(context_.api.memory_info(context_.handle, &info));
  fail(EMU_ERROR_OUT_OF_MEMORY, context_.index,
       text("out of memory on device %d: requested %llu bytes; free %llu of %llu bytes; this process holds %llu, of "
            "which %llu are cached; other processes hold %llu%s%s",
            context_.index, static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(info.free_bytes),
            static_cast<unsigned long long>(info.total_bytes), static_cast<unsigned long long>(stats_.reserved_bytes),
            static_cast<unsigned long long>(stats_.reserved_bytes - stats_.allocated_bytes),
            static_cast<unsigned long long>(info.total_bytes - info.free_bytes - info.context_bytes),
            asked ? "; " : "", driver.cause),
       "Free tensors, use smaller batches, or end other processes on the device");
}

}  // namespace emurt
