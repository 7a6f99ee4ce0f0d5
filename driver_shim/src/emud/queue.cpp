#include "queue.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "emu_constants.h"
#include "refusal.h"

namespace emu {
namespace {

/* Copies from byte `at` of the endless stream of commands; the ring is where it lies modulo its size. */
void copy_out(const std::byte* ring, uint64_t at, void* to, size_t bytes) {
  const size_t offset = at % constants::kRingBytes;
  const size_t first = std::min<size_t>(bytes, constants::kRingBytes - offset);
  std::memcpy(to, ring + offset, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

} // namespace

Queue::Queue(std::shared_ptr<Context> context_, uint32_t id_, emu_queue_kind kind_, int32_t priority_)
    : id(id_), kind(kind_), priority(priority_), context(std::move(context_)),
      ring_fd_(memfd_create("emu-queue", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      doorbell_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  constexpr size_t bytes = kRingDataOffset + constants::kRingBytes;
  // Sealed: a client that made it smaller would end emud with SIGBUS.
  if (ring_fd_ && doorbell_fd_ && ftruncate(ring_fd_.get(), bytes) == 0 &&
      fcntl(ring_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    ring_ = Mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd_.get(), 0), bytes);
  }
  if (!ring_) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_QUEUE, format("no memory for a queue: %s", std::strerror(errno)));
  }
  header().sleeping.store(1, std::memory_order_seq_cst); // until the engine has seen the queue
}

Queue::Head Queue::peek() {
  if (peeked_) return malformed().empty() ? Head::ready : Head::malformed;
  const uint64_t available = header().tail.load(std::memory_order_seq_cst) - head_;
  if (available == 0) return Head::empty;
  peeked_ = true;
  if (available > constants::kRingBytes || available % kCommandGranule != 0) {
    std::snprintf(malformed_, sizeof malformed_, "tail of the ring is out of range: %llu bytes past head",
                  static_cast<unsigned long long>(available));
    return Head::malformed;
  }
  const std::byte* ring = static_cast<const std::byte*>(ring_.get()) + kRingDataOffset;
  copy_out(ring, head_, &command_, sizeof command_);
  if (command_.bytes < sizeof(Command) || command_.bytes > std::min<uint64_t>(available, kMaxCommand) ||
      command_.bytes % kCommandGranule != 0) {
    std::snprintf(malformed_, sizeof malformed_,
                  "size of a command is out of range: expected %zu to %zu and no more than is there, got %u",
                  sizeof(Command), kMaxCommand, command_.bytes);
    return Head::malformed;
  }
  copy_out(ring, head_ + sizeof command_, arguments_.data(), command_.bytes - sizeof command_);
  return Head::ready;
}

std::span<const std::byte> Queue::arguments() const {
  return {arguments_.data(), command_.bytes - sizeof(Command)};
}

void Queue::complete(uint64_t end_ticks) {
  const uint64_t done = sequence();
  head_ += command_.bytes;
  peeked_ = false;
  awaited.reset();
  found_ticks.reset();
  end_ticks_[done % end_ticks_.size()].store(end_ticks, std::memory_order_relaxed);
  completed_.store(done, std::memory_order_seq_cst);
  header().head.store(head_, std::memory_order_release);
  header().completed.store(done, std::memory_order_seq_cst);
  if (header().waiters.load(std::memory_order_seq_cst) != 0) wake_all(header().completed);
}

uint64_t Queue::end_ticks(uint64_t sequence) const {
  const uint64_t done = completed();
  // Older than what is kept: the last one is later, which is never wrong by order.
  if (sequence > done || done - sequence >= end_ticks_.size()) sequence = done;
  return end_ticks_[sequence % end_ticks_.size()].load(std::memory_order_relaxed);
}

void Queue::set_state(QueueState state) {
  // The first one is why; what follows from it (a lost device's queues are destroyed) is not.
  uint32_t running = uint32_t(QueueState::running);
  header().state.compare_exchange_strong(running, uint32_t(state), std::memory_order_seq_cst);
  wake_all(header().completed);
}

} // namespace emu
