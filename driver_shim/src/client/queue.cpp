/* The client's side of a command ring (ring.h). */
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fork.h"
#include "objects.h"
#include "wait.h"

namespace emu::client {

Queue::Queue(std::shared_ptr<Context> context_, uint32_t kind, int32_t priority) : context(std::move(context_)) {
  Response response = context->request(RequestKind::queue_create, kind, uint32_t(priority));
  if (response.fds.size() != 2) {
    throw Error(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE, "emud made a queue and did not send its ring");
  }
  id_ = uint32_t(response.reply.value);
  ring_bytes_ = response.reply.count;
  doorbell_ = std::move(response.fds[1]);
  const size_t bytes = kRingDataOffset + ring_bytes_;
  ring_ = Mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, response.fds[0].get(), 0), bytes);
  if (!ring_) {
    const int number = errno;
    context->request(RequestKind::queue_destroy, id_);
    throw host_error("mmap of a queue", number);
  }
  madvise(ring_.get(), bytes, MADV_DONTFORK);
  close_in_children(doorbell_.get());
}

Queue::~Queue() {
  if (doorbell_) keep_in_children(doorbell_.get());
}

void Queue::destroy() {
  if (context->drains_queues) {
    try {
      wait(submitted_, UINT64_MAX);
    } catch (const Error&) {
      // A lost context: its queues can still be destroyed.
    }
  }
  context->request(RequestKind::queue_destroy, id_);
}

void Queue::require_running() {
  const auto state = QueueState(header().state.load(std::memory_order_acquire));
  if (state == QueueState::running) return;
  if (state != QueueState::queue_lost) context->throw_lost(state);
  emu_error error = fault(UINT64_MAX);
  if (error.status == EMU_OK) return; // it was reset meanwhile
  const std::string cause = error.cause;
  std::snprintf(error.cause, sizeof error.cause, "the queue was lost by an earlier fault: %.300s", cause.c_str());
  std::snprintf(error.mend, sizeof error.mend, "reset the queue, or destroy it");
  error.status = EMU_ERROR_QUEUE_LOST;
  throw Error(error);
}

/* Why command `value` will not be done; EMU_OK: nothing says so. */
emu_error Queue::fault(uint64_t value) {
  Request message = context->message(RequestKind::queue_fault);
  message.object = id_;
  message.value = value;
  return context->device().connection.fetch<emu_error>(message);
}

void Queue::reset() { context->request(RequestKind::queue_reset, id_); }

void Queue::ring() {
  header().rings.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t one = 1;
  while (write(doorbell_.get(), &one, sizeof one) < 0 && errno == EINTR) {} // else it rings already
}

void Queue::ring_all_again() {
  static std::atomic<uint64_t> due_ns{0};
  const uint64_t now = monotonic_ns();
  uint64_t due = due_ns.load(std::memory_order_relaxed);
  if (now < due || !due_ns.compare_exchange_strong(due, now + kRingAgainNs / 4, std::memory_order_relaxed)) return;
  tables().queues.for_each([=](Queue& queue) { queue.ring_again(now); });
}

/* While the device sleeps over what it was rung for. */
void Queue::ring_again(uint64_t now) {
  const bool waits = header().head.load(std::memory_order_relaxed) != header().tail.load(std::memory_order_relaxed);
  if (!waits || header().sleeping.load(std::memory_order_seq_cst) == 0) return;
  uint64_t due = ring_again_ns_.load(std::memory_order_relaxed);
  if (now < due || !ring_again_ns_.compare_exchange_strong(due, now + kRingAgainNs, std::memory_order_relaxed)) return;
  if (due != 0) ring();
}

void Queue::copy_in(uint64_t at, const void* from, size_t bytes) {
  auto* const ring = static_cast<std::byte*>(ring_.get()) + kRingDataOffset;
  const size_t offset = at % ring_bytes_;
  const size_t first = std::min<size_t>(bytes, ring_bytes_ - offset);
  std::memcpy(ring + offset, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}

uint64_t Queue::submit(const Command& command, const void* arguments, size_t bytes) {
  Command placed = command;
  placed.bytes = uint32_t((sizeof(Command) + bytes + kCommandGranule - 1) / kCommandGranule * kCommandGranule);
  placed.submitted = stamp(monotonic_ns());
  const std::lock_guard lock(mutex_);
  require_running();
  if (tail_ + placed.bytes - header().head.load(std::memory_order_acquire) > ring_bytes_) make_room(placed.bytes);
  copy_in(tail_, &placed, sizeof placed);
  if (bytes > 0) copy_in(tail_ + sizeof placed, arguments, bytes);
  tail_ += placed.bytes;
  header().tail.store(tail_, std::memory_order_seq_cst);
  if (header().sleeping.load(std::memory_order_seq_cst) != 0) {
    ring_again_ns_.store(monotonic_ns() + kRingAgainNs, std::memory_order_relaxed);
    ring();
  }
  return ++submitted_;
}

void Queue::make_room(size_t bytes) {
  const auto there_is = [&] { return tail_ + bytes - header().head.load(std::memory_order_acquire) <= ring_bytes_; };
  while (wait_until(there_is, UINT64_MAX) != Waited::done) require_running(); // it may have been reset meanwhile
  require_running();
}

/* Without the lock of submission: who holds it may be waiting for room, which this makes. */
uint64_t Queue::cancel(uint64_t from, uint32_t flags) {
  const uint64_t running = (flags & EMU_CANCEL_RUNNING) != 0 ? kCancelRunning : 0;
  return context->request(RequestKind::queue_cancel, id_ | running, from, submitted_).reply.value;
}

uint64_t Queue::completed() {
  const uint64_t value = header().completed.load(std::memory_order_acquire);
  if (header().state.load(std::memory_order_acquire) != uint32_t(QueueState::running)) wait(UINT64_MAX, 0);
  ring_all_again();
  return value;
}

bool Queue::wait(uint64_t value, uint64_t timeout_ns) {
  Waited waited;
  QueueState state;
  do {
    waited = wait_until([&] { return header().completed.load(std::memory_order_acquire) >= value; }, timeout_ns);
    state = QueueState(header().state.load(std::memory_order_acquire));
  } while (waited == Waited::ended && state == QueueState::running); // it was reset meanwhile
  const bool done = waited == Waited::done;
  if (state == QueueState::context_lost) context->throw_fault();
  const bool given_up = value != 0 && value <= header().given_up.load(std::memory_order_acquire);
  if (done ? given_up : state == QueueState::queue_lost) {
    const emu_error error = fault(value);
    if (error.status != EMU_OK) throw Error(error);
    return done;
  }
  if (state != QueueState::running && !done) context->throw_lost(state);
  return done;
}

/* Until `done`, or the queue no longer runs (then false), or the time is up (false). */
template <typename Done>
Waited Queue::wait_until(const Done& done, uint64_t timeout_ns) {
  const auto running = [&] { return header().state.load(std::memory_order_acquire) == uint32_t(QueueState::running); };
  // `completed` moves with every command, and after `head`: whatever `done` looks at.
  const Watched watched{header().completed, header().waiters, context->device().connection};
  const auto nudge = [this] {
    ring_again(monotonic_ns()); // it has no handle while it is destroyed
    ring_all_again();
  };
  const Waited waited = client::wait_until(watched, done, running, nudge, timeout_ns);
  if (waited == Waited::device_lost) context->throw_lost(QueueState::device_lost);
  return waited;
}

} // namespace emu::client
