/* A command ring in memory that client and emud share.
 *
 * One memfd a queue: a header page, then `ring_bytes` of commands. `tail` and `head`
 * count bytes since the queue was made and never wrap in practice. The client writes
 * commands and moves `tail`; emud copies a command out before it looks at it, runs it,
 * and then moves `head` and `completed`. emud keeps its own copy of what it wrote: what
 * a client scribbles over the header harms only that client.
 *
 * Nobody makes a system call while both sides are awake. emud raises `sleeping` before
 * it sleeps and looks at every tail once more; a client that moved `tail` and then sees
 * `sleeping` writes to the doorbell. A doorbell may be lost: a client that waits while emud sleeps rings again after
 * kRingAgainNs. A client raises `waiters` before it sleeps on
 * `completed`; emud wakes it after moving `completed`. */
#ifndef EMU_RING_H
#define EMU_RING_H

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace emu {

enum class CommandKind : uint32_t {
  launch = 1,           // target: program; length: bytes of arguments, which follow, or up to whole granules; grid
  copy_to_device = 2,   // target: address; source: buffer; offset in it; length
  copy_from_device = 3, // source: address; target: buffer; offset in it; length
  copy_on_device = 4,   // target, source: addresses; length
  fill = 5,             // target: address; source: byte value; length
  wait = 6,             // target: queue; source: value of its timeline
  timestamp = 7,        // target: buffer; offset in it
  signal_fence = 8,     // target: fence; source: value
  wait_fence = 9,       // target: fence; source: value
  copy_peer = 10,       // target, source: addresses; offset: peer; length; grid[0]: 1 if the peer is the source, else 0
};

struct Command {
  uint32_t kind;
  uint32_t bytes; // of this command and what follows it, a multiple of kCommandGranule
  uint64_t correlation;
  uint64_t target;
  uint64_t source;
  uint64_t offset;
  uint64_t length;
  uint32_t grid[3];
  uint32_t submitted;   // when, as `stamp` gives it; 0: the client does not say
};
static_assert(sizeof(Command) == 64 && std::is_trivially_copyable_v<Command>);

constexpr uint32_t kCommandGranule = 64;
constexpr size_t kMaxArguments = 4096;
constexpr size_t kMaxCommand = sizeof(Command) + kMaxArguments;

enum class QueueState : uint32_t { running = 0, context_lost = 1, device_lost = 2, destroyed = 3, queue_lost = 4 };

struct RingHeader {
  // Written by emud.
  alignas(64) std::atomic<uint64_t> completed; // the timeline
  std::atomic<uint64_t> head;
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> sleeping;
  std::atomic<uint64_t> given_up; // the last command that a reset of the queue gave up, or 0
  // Written by the client.
  alignas(64) std::atomic<uint64_t> tail;
  std::atomic<uint32_t> waiters;
  std::atomic<uint32_t> rings; // of the doorbell, by clients of kQueueLossInterface
};
static_assert(sizeof(RingHeader) == 128 && offsetof(RingHeader, tail) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

constexpr size_t kRingDataOffset = 4096;
constexpr uint64_t kRingAgainNs = 20'000'000;

inline uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

/* The host's clock in steps of 512 ns, never 0. */
inline uint32_t stamp(uint64_t ns) { return uint32_t(ns >> 8) | 1; }
/* Nanoseconds from a stamp to `now`, where that is less than 9 minutes (half a round of the stamp); else 0. */
inline uint64_t since(uint32_t stamped, uint64_t now) {
  const uint32_t steps = stamp(now) - stamped;
  return int32_t(steps) < 0 ? 0 : uint64_t(steps) << 8;
}

/* Shared futex on the low half of a timeline. */
inline void wait_while(std::atomic<uint64_t>& word, uint64_t seen, uint64_t timeout_ns) {
  timespec timeout{time_t(timeout_ns / 1000000000u), long(timeout_ns % 1000000000u)};
  syscall(SYS_futex, &word, FUTEX_WAIT, uint32_t(seen), &timeout, nullptr, 0);
}
inline void wake_all(std::atomic<uint64_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/* Busy waiting that stays polite when there are more threads than cores: pause
 * instructions, and the core is offered to others every few microseconds. */
class Spin {
 public:
  explicit Spin(uint64_t budget_ns) : budget_(budget_ns) {}

  /* False once the budget is used up: time to sleep. */
  bool again() {
    for (int i = 0; i < 16; ++i) pause();
    if (++rounds_ % 4 != 0) return true;
    const uint64_t now = monotonic_ns();
    if (start_ == 0) start_ = now;
    if (now - start_ > budget_) return false;
    sched_yield(); // the other side may be waiting for this very core
    return true;
  }
  void reset() {
    start_ = 0;
    rounds_ = 0;
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  uint64_t budget_;
  uint64_t start_ = 0;
  unsigned rounds_ = 0;
};

} // namespace emu

#endif
