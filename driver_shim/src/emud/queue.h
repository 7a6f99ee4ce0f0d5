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
#include <optional>
#include <span>
#include <string_view>

#include "descriptor.h"
#include "emu/driver.h"
#include "ring.h"

namespace emu {

class Context;

class Queue {
 public:
  Queue(std::shared_ptr<Context> context, uint32_t id, emu_queue_kind kind, int32_t priority); // throws Refusal

  const uint32_t id;
  const emu_queue_kind kind;
  const int32_t priority;
  const std::shared_ptr<Context> context;

  int ring_fd() const { return ring_fd_.get(); }
  uint64_t ring_bytes() const { return ring_.bytes() - kRingDataOffset; }
  int doorbell_fd() const { return doorbell_fd_.get(); }

  // The engine's side, one thread.
  enum class Head { empty, ready, malformed };
  Head peek();                                    // copies the next command out, once
  const Command& command() const { return command_; }
  std::span<const std::byte> arguments() const;   // of the command that was peeked
  std::string_view malformed() const { return malformed_; } // why, or ""
  uint64_t sequence() const { return completed_.load(std::memory_order_relaxed) + 1; }
  void complete(uint64_t end_ticks);
  void set_sleeping(bool sleeping) { header().sleeping.store(sleeping, std::memory_order_seq_cst); }
  std::weak_ptr<Queue> awaited; // of the `wait` that was peeked; weak, as two queues may wait for each other
  uint64_t last_served = 0;
  std::optional<uint64_t> found_ticks; // where its engine stood when it found this command ready to start

  // Any thread.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  uint64_t end_ticks(uint64_t sequence) const;    // when a completed command ended, on the device clock
  uint64_t ready_ticks() const { return end_ticks(completed()); }
  void set_state(QueueState state);               // tells the client, and wakes it
  std::atomic<bool> destroyed{false};

 private:
  RingHeader& header() const { return *static_cast<RingHeader*>(ring_.get()); }

  Descriptor ring_fd_;
  Descriptor doorbell_fd_;
  Mapping ring_;
  uint64_t head_ = 0;
  bool peeked_ = false;
  std::atomic<uint64_t> completed_{0};
  std::array<std::atomic<uint64_t>, 256> end_ticks_{}; // of the last commands, by sequence number
  Command command_{};
  alignas(16) std::array<std::byte, kMaxArguments> arguments_;
  char malformed_[160] = ""; // no string: the engine's thread has nobody to tell that there is no memory for it
};

} // namespace emu

#endif
