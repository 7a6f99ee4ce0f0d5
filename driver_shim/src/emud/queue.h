/* The device's side of a command ring (ring.h).
 *
 * One engine consumes a queue. It copies a command out of the shared memory once, and
 * everything after looks only at that copy. `completed` here is the truth; what the
 * client sees is a copy of it. */
#ifndef EMU_QUEUE_H
#define EMU_QUEUE_H

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "descriptor.h"
#include "emu/driver.h"
#include "ring.h"

namespace emu {

class Context;

/* What became of the commands of a queue; it outlives the queue, as others may still wait for them. */
struct Timeline {
  enum class Outcome { done, given_up, open };
  using GivenUp = std::vector<std::pair<uint64_t, uint64_t>>; // first and last of each reset

  uint64_t completed = 0;
  bool lost = false;
  GivenUp given_up;
  uint64_t end_ticks = 0; // of the last command that is done

  Outcome outcome(uint64_t sequence) const { return outcome(sequence, completed, lost, given_up); }
  static Outcome outcome(uint64_t sequence, uint64_t completed, bool lost, const GivenUp& given_up);
};

class Queue {
 public:
  Queue(std::shared_ptr<Context> context, uint32_t id, emu_queue_kind kind, int32_t priority); // throws Refusal
  /* What is to go on in the place of `before` after its reset, with the same ring. Its engine and client see nothing of
   * it until it gives up what `before` has not done, while no command of that runs, and then takes over. */
  explicit Queue(const Queue& before);
  bool give_up(const Queue& before) noexcept; // false: what the ring holds are no commands
  void take_over() noexcept;

  const uint32_t id;
  const emu_queue_kind kind;
  const int32_t priority;
  const std::shared_ptr<Context> context;

  int ring_fd() const { return ring_->fd.get(); }
  uint64_t ring_bytes() const { return ring_->memory.bytes() - kRingDataOffset; }
  int doorbell_fd() const { return ring_->doorbell.get(); }

  // The engine's side, one thread.
  enum class Head { empty, ready, malformed };
  Head peek();                                    // copies the next command out, once
  const Command& command() const { return command_; }
  std::span<const std::byte> arguments() const;   // of the command that was peeked
  std::string_view malformed() const { return malformed_; } // why, or ""
  uint64_t sequence() const { return completed_.load(std::memory_order_relaxed) + 1; }
  bool claim();     // starts the command at the head; false: it is to be passed over
  bool cancelled(); // that claim() would say so
  void complete(uint64_t end_ticks);
  void set_sleeping(bool sleeping) {
    if (sleeping || !deaf_) header().sleeping.store(sleeping, std::memory_order_seq_cst);
  }
  bool has_unseen_command() const { return !peeked_ && available() != 0; }
  void lose_doorbell();                           // what was rung for is not seen until the client rings again
  bool is_deaf() const { return deaf_; }
  bool hears();                                   // it has; then it is not deaf any more
  std::weak_ptr<Queue> awaited; // of the `wait` that was peeked; weak, as two queues may wait for each other
  uint64_t last_served = 0;
  std::optional<uint64_t> found_ticks; // where its engine stood when it found this command ready to start

  /* Of the commands that are not done, the first ones, while its engine runs none of them. */
  template <typename Each>
  void for_waiting(uint64_t most, const Each& each) const {
    const uint64_t waiting = available(), end = head_ + waiting;
    if (waiting > ring_bytes()) return;
    Command command;
    for (uint64_t at = head_; most > 0 && command_at(at, end, command); at += command.bytes, --most) each(command);
  }

  // Any thread.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  uint64_t end_ticks(uint64_t sequence) const;    // when a completed command ended, on the device clock
  uint64_t ready_ticks() const { return end_ticks(completed()); }
  void set_state(QueueState state);               // tells the client, and wakes it
  std::atomic<bool> destroyed{false};
  std::atomic<bool> stopped{false};  // what runs ends early, and no result of it is told
  std::atomic<bool> ending{false};   // what runs ends early, for that or because it is cancelled
  void stop() {
    stopped = true;
    ending = true;
  }
  void lose(const emu_error& error); // by its own command
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  emu_error fault() const;           // that it was lost by
  Timeline::Outcome outcome(uint64_t sequence) const {
    const bool lost = is_lost(); // first: nothing completes after it
    return Timeline::outcome(sequence, completed(), lost, given_up_);
  }
  Timeline take_timeline() noexcept; // once, while no command of its context runs
  /* Commands from `from` to `to` that have not started are passed over; one that runs is ended too where `running` says
   * so. The first that is passed over, or to + 1. Throws Refusal. */
  uint64_t cancel(uint64_t from, uint64_t to, bool running);

 private:
  struct Range {
    uint64_t from, to; // sequence numbers
  };

  bool is_cancelled(uint64_t sequence) const;
  struct Ring {
    Descriptor fd, doorbell;
    Mapping memory;
  };
  RingHeader& header() const { return *static_cast<RingHeader*>(ring_->memory.get()); }
  uint64_t available() const; // bytes past head
  /* What lies at byte `at` of the stream, which goes to `end`; false: no command. */
  bool command_at(uint64_t at, uint64_t end, Command& out) const;

  std::shared_ptr<Ring> ring_;
  Timeline::GivenUp given_up_; // never changed while others wait for it
  mutable std::mutex fault_mutex_;
  emu_error fault_{};
  std::atomic<bool> lost_{false};
  uint64_t head_ = 0;
  bool peeked_ = false;
  bool deaf_ = false;
  uint32_t rings_ = 0; // when it went deaf
  std::atomic<uint64_t> completed_{0};
  std::array<std::atomic<uint64_t>, 256> end_ticks_{}; // of the last commands, by sequence number
  std::mutex cancel_mutex_; // what follows to started_
  std::array<Range, 16> cancelled_{};
  size_t ranges_ = 0;
  uint64_t started_ = 0; // the last command that was, as a sequence number
  std::atomic<uint64_t> cancelled_to_{0}; // highest of them all
  Command command_{};
  alignas(16) std::array<std::byte, kMaxArguments> arguments_;
  char malformed_[160] = ""; // no string: the engine's thread has nobody to tell that there is no memory for it
};

} // namespace emu

#endif
