#include "queue.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "emu_constants.h"
#include "refusal.h"
#include "shared.h"

namespace emu {
namespace {

constexpr size_t kMostGivenUp = 64;

/* Copies from byte `at` of the endless stream of commands; the ring is where it lies modulo its size. */
void copy_out(const std::byte* ring, uint64_t at, void* to, size_t bytes) {
  const size_t offset = at % constants::kRingBytes;
  const size_t first = std::min<size_t>(bytes, constants::kRingBytes - offset);
  std::memcpy(to, ring + offset, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

} // namespace

Queue::Queue(std::shared_ptr<Context> context_, uint32_t id_, emu_queue_kind kind_, int32_t priority_)
    : id(id_), kind(kind_), priority(priority_), context(std::move(context_)), ring_(std::make_shared<Ring>()) {
  ring_->doorbell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (ring_->doorbell) {
    Shared made = share("emu-queue", kRingDataOffset + constants::kRingBytes);
    ring_->fd = std::move(made.fd);
    ring_->memory = std::move(made.memory);
  }
  if (!ring_->memory) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_QUEUE, format("no memory for a queue: %s", std::strerror(errno)));
  }
  header().sleeping.store(1, std::memory_order_seq_cst); // until the engine has seen the queue
}

Queue::Queue(const Queue& before)
    : id(before.id), kind(before.kind), priority(before.priority), context(before.context), ring_(before.ring_),
      given_up_(before.given_up_) {
  given_up_.reserve(given_up_.size() + 1); // `give_up` needs no memory
}

bool Queue::give_up(const Queue& before) noexcept {
  head_ = before.head_;
  const uint64_t waiting = available();
  const uint64_t done = before.completed();
  uint64_t count = 0;
  if (waiting > constants::kRingBytes) return false;
  for (const uint64_t end = head_ + waiting; head_ != end; ++count) {
    Command command;
    if (!command_at(head_, end, command)) return false;
    head_ += command.bytes;
  }
  completed_ = done + count;
  for (size_t i = 0; i < end_ticks_.size(); ++i) end_ticks_[i] = before.ready_ticks();
  if (count == 0) return true;
  if (given_up_.size() == kMostGivenUp) { // what lies between the oldest two is told as given up too
    given_up_[1].first = given_up_[0].first;
    given_up_.erase(given_up_.begin());
  }
  given_up_.emplace_back(done + 1, done + count);
  return true;
}

bool Queue::command_at(uint64_t at, uint64_t end, Command& out) const {
  if (end - at < sizeof out) return false;
  copy_out(static_cast<const std::byte*>(ring_->memory.get()) + kRingDataOffset, at, &out, sizeof out);
  return out.bytes >= sizeof out && out.bytes <= end - at && out.bytes % kCommandGranule == 0;
}

void Queue::take_over() noexcept {
  const uint64_t done = completed();
  if (!given_up_.empty()) header().given_up.store(given_up_.back().second, std::memory_order_seq_cst);
  header().head.store(head_, std::memory_order_release);
  header().completed.store(done, std::memory_order_seq_cst);
  uint32_t lost = uint32_t(QueueState::queue_lost);
  header().state.compare_exchange_strong(lost, uint32_t(QueueState::running), std::memory_order_seq_cst);
  wake_all(header().completed);
}

Timeline::Outcome Timeline::outcome(uint64_t sequence, uint64_t completed, bool lost, const GivenUp& given_up) {
  if (sequence > completed) return lost ? Outcome::given_up : Outcome::open;
  const bool among = std::any_of(given_up.begin(), given_up.end(), [=](const auto& range) {
    return sequence >= range.first && sequence <= range.second;
  });
  return among ? Outcome::given_up : Outcome::done;
}

Timeline Queue::take_timeline() noexcept {
  return {completed(), is_lost() || available() != 0, std::move(given_up_),
          ready_ticks()}; // what it holds will not be done
}

void Queue::lose(const emu_error& error) {
  {
    const std::lock_guard lock(fault_mutex_);
    fault_ = error;
    lost_.store(true, std::memory_order_release);
  }
  set_state(QueueState::queue_lost);
}

emu_error Queue::fault() const {
  const std::lock_guard lock(fault_mutex_);
  return fault_;
}

uint64_t Queue::available() const { return header().tail.load(std::memory_order_seq_cst) - head_; }

Queue::Head Queue::peek() {
  if (peeked_) return malformed().empty() ? Head::ready : Head::malformed;
  const uint64_t available = this->available();
  if (available == 0) return Head::empty;
  peeked_ = true;
  if (available > constants::kRingBytes || available % kCommandGranule != 0) {
    std::snprintf(malformed_, sizeof malformed_, "tail of the ring is out of range: %llu bytes past head",
                  static_cast<unsigned long long>(available));
    return Head::malformed;
  }
  const std::byte* ring = static_cast<const std::byte*>(ring_->memory.get()) + kRingDataOffset;
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

bool Queue::is_cancelled(uint64_t sequence) const {
  return std::any_of(cancelled_.begin(), cancelled_.begin() + ptrdiff_t(ranges_),
                     [=](const Range& range) { return range.from <= sequence && sequence <= range.to; });
}

bool Queue::cancelled() {
  if (sequence() > cancelled_to_) return false;
  const std::lock_guard lock(cancel_mutex_);
  return is_cancelled(sequence());
}

bool Queue::claim() {
  const std::lock_guard lock(cancel_mutex_);
  if (is_cancelled(sequence())) return false;
  started_ = sequence();
  ending = false; // an end that was meant for the command before is not meant for this one
  if (stopped) ending = true;
  return true;
}

uint64_t Queue::cancel(uint64_t from, uint64_t to, bool running) {
  const std::lock_guard lock(cancel_mutex_);
  const uint64_t done = completed();
  if (running && started_ > done && from <= started_ && started_ <= to) ending = true;
  const uint64_t first = std::max(from, std::max(started_, done) + 1);
  if (first > to) return to + 1;
  // What is past is forgotten, and what meets the new range becomes one with it.
  Range wanted{first, to};
  const auto end = std::remove_if(cancelled_.begin(), cancelled_.begin() + ptrdiff_t(ranges_), [&](const Range& range) {
    if (range.to <= done) return true;
    if (range.to + 1 < wanted.from || wanted.to + 1 < range.from) return false;
    wanted = {std::min(range.from, wanted.from), std::max(range.to, wanted.to)};
    return true;
  });
  ranges_ = size_t(end - cancelled_.begin());
  if (ranges_ == cancelled_.size()) {
    throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                  format("commands to pass over: expected at most %zu ranges of a queue, got one more", ranges_),
                  "wait until the queue is past those before");
  }
  cancelled_[ranges_++] = wanted;
  cancelled_to_ = std::max(cancelled_to_.load(), to);
  return first;
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

void Queue::lose_doorbell() {
  rings_ = header().rings.load(std::memory_order_seq_cst);
  deaf_ = true;
}

bool Queue::hears() {
  if (header().rings.load(std::memory_order_seq_cst) == rings_) return false;
  deaf_ = false;
  return true;
}

void Queue::set_state(QueueState state) {
  // The first one is why; what follows from it (a lost device's queues are destroyed) is not. But a lost queue can be
  // reset, until it loses its context too.
  uint32_t before = uint32_t(QueueState::running);
  if (!header().state.compare_exchange_strong(before, uint32_t(state), std::memory_order_seq_cst) &&
      before == uint32_t(QueueState::queue_lost)) {
    header().state.compare_exchange_strong(before, uint32_t(state), std::memory_order_seq_cst);
  }
  wake_all(header().completed);
}

} // namespace emu
