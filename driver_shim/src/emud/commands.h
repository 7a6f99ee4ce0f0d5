/* The commands of a queue: what each does, checked against the context it came from, and what it cost. */
#ifndef EMU_COMMANDS_H
#define EMU_COMMANDS_H

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "access.h"
#include "device.h"

namespace emu {

/* Ends the command; what is known beyond it is filled in by `execute`. */
struct CommandFault {
  emu_status status;
  uint64_t address;
  std::string cause;
  emu_scope scope = EMU_SCOPE_CONTEXT;
};

/* One run of the command at a queue's head. */
class Execution : machine::BitErrorCorrection {
 public:
  Execution(Device& device, Queue& queue);
  void run();
  /* Nobody who waits for a signal that is taken back hangs. */
  void pass_over();
  Span advance() const;
  void slow_down();
  /* That it has found, into the log and the counters; `error` gets the address of one that ended it. */
  void report_bit_errors(emu_error& error);

  emu_activity activity{};
  Work work;

 private:
  /* What was injected for this command. */
  void strike();
  /* Of the device memory that the command names. */
  uint64_t first_address() const;
  /* A launch that does nothing, and does not end before the watchdog ends it. */
  [[noreturn]] void hang();
  emu_scope scope_of_queue() const { return context_.knows_queue_loss ? EMU_SCOPE_QUEUE : EMU_SCOPE_CONTEXT; }
  CommandFault timed_out(std::string cause) const;
  Faults::BitErrors bit_errors(uint64_t page);
  bool correct(uint64_t page) noexcept override;
  void note(emu_status status, emu_scope scope, const char* text, uint64_t number);

  void launch();
  /* The erratum argument-tail: what is beyond the last whole granule is not fetched. */
  static std::span<const std::byte> without_tail(std::span<const std::byte> arguments,
                                                 std::array<std::byte, kMaxArguments>& fetched);

  uint64_t ticks_of(uint64_t bytes) const;
  void copied(Work::Direction direction);
  /* Of the bytes that were to be moved; fewer when it was ended early. What moved none takes no time: a size that is
   * refused may be anything. */
  void moved(uint64_t bytes);
  void overwritten() { overwritten(context_); }
  void overwritten(Context& target);
  void copy(std::byte* to, const std::byte* from);

  void copy_to_device();
  void copy_from_device();
  void copy_on_device();
  void fill();
  void wait();
  void timestamp();
  void signal_fence();
  void wait_fence();
  void copy_peer();
  /* It may be another device's fault, which is no reason to lose this context. */
  CommandFault without_peer() const;
  Link* link_to(const Device& other);

  Device& device_;
  Queue& queue_;
  Context& context_;
  const Command& command_;
  machine::AddressSpace space_;
  Context* read_ = &context_; // whose memory the command reads
  uint64_t ready_;
  std::atomic<uint64_t> corrected_{0};
  std::shared_ptr<Context> peer_; // of a copy to or from another context
  Link* link_ = nullptr;          // that it takes
};

/* False while the command at the head of the queue waits for another queue or a fence, or for requests of the context
 * that it copies to or from. */
bool wait_is_over(Queue& queue);

} // namespace emu

#endif
