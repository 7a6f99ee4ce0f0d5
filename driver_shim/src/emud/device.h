/* One emulated device: its memory, its two engines, its clock and its counters.
 *
 * The device clock is made from what commands did (machine::Cost, copy cost), never from
 * host time. Each engine has its own place on it; the clock stands where the furthest is. */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "board.h"
#include "context.h"
#include "copier.h"
#include "emu/driver.h"
#include "engine.h"
#include "events.h"
#include "faults.h"
#include "firmware.h"
#include "memory.h"
#include "options.h"
#include "power.h"
#include "refusal.h"

namespace emu {

/* What one command did: a launch, a copy or fill, or neither. */
struct Work {
  machine::Cost cost;
  enum class Direction { to_device, from_device, on_device } direction = Direction::on_device;
  uint64_t bytes = 0;
  uint64_t copy_ticks = 0;
  uint64_t found_ticks = 0; // where its engine stood when it found the command ready to start
  uint64_t delay_ns = 0;    // from its submission to its start, on the host
  uint64_t factor = 1;      // that a fault makes it slow by
  uint32_t power_mode = 0;  // that was set when it started
  bool launch = false;
  bool completed = true; // or ended half-way, with its context
};

/* Where a command lies on the device clock. */
struct Span {
  uint64_t start, end;
};

class Device {
 public:
  /* Starts it; throws Refusal. */
  Device(const Options& options, uint32_t index, std::unique_ptr<Firmware> firmware, Board& board);
  ~Device();

  const uint32_t index;
  Board& board() { return board_; }
  PhysicalMemory& memory() { return memory_; }
  machine::Pool& pool() { return pool_; }
  Copier& copier() { return copier_; }
  uint64_t tick_budget() const { return tick_budget_; }
  std::chrono::milliseconds launch_limit() const { return launch_limit_; }
  const constants::Stepping& stepping() const { return stepping_; }

  emu_device_info info() const;
  emu_telemetry telemetry() const;
  Refusal out_of_memory(uint64_t bytes) const; // names who holds what

  // Of the device's owner; each throws Refusal, and what it did or refused is in the log.
  emu_firmware_info firmware_info() const { return firmware_->info(); }
  void firmware_write(uint64_t total, uint64_t offset, std::span<const std::byte> bytes);
  void firmware_activate();
  void firmware_rollback();
  void reset(pid_t by); // every context is lost, then firmware starts

  uint64_t fault_inject(emu_fault fault, pid_t by); // its number
  void fault_clear(uint64_t number, pid_t by);
  Faults& faults() { return faults_; }

  /* What a command of the context has done to the device (EMU_ERROR_THERMAL_TRIP, EMU_ERROR_FIRMWARE_CRASH): ends every
   * context with the error, and refuses new ones with it until a reset. A context from before a reset does nothing. */
  void fail(Context& by, const emu_error& error) noexcept;

  /* Adds to the log, with the time of both clocks, and gives what was added. The text is for the user and the device's
   * owner alone, or for all where there is no user. Needs no memory of the host. */
  emu_event note(emu_event event, std::string_view text, std::optional<uid_t> user = std::nullopt) noexcept;
  const Events& events() const { return events_; }

  std::shared_ptr<Context> context_create(const Client& client, uint64_t number, std::shared_ptr<Quotas> quotas);
  void context_destroy(const std::shared_ptr<Context>& context) noexcept;
  uint32_t next_queue_id() { return next_queue_id_++; }
  void attach(const std::shared_ptr<Queue>& queue);
  void detach(const std::shared_ptr<Queue>& queue) noexcept;
  void replace(const std::shared_ptr<Queue>& before, const std::shared_ptr<Queue>& after) noexcept;
  void ring(); // both engines look again
  void ring_if_blocked(); // those that are asleep over a queue that waits

  emu_power_mode power_mode(uint64_t index) const; // throws Refusal
  void set_power_mode(uint64_t index);             // from the next command on; throws Refusal
  uint32_t power_mode() const;                     // that is set
  void link_set_up(Link& link, bool up, const std::string& by, pid_t process);

  /* Places a command that is ready at `ready` on the clock of engine `kind`. */
  Span advance(emu_queue_kind kind, uint64_t ready, const Work& work);
  /* The same for a copy to or from `other`, which it occupies too; `link` is where they are two. `work.direction` is
   * as this device sees it. */
  Span advance_with(Device& other, Link* link, emu_queue_kind kind, uint64_t ready, const Work& work);
  uint64_t engine_ticks(emu_queue_kind kind) const; // where it stands on the clock
  void progress(emu_queue_kind kind); // an engine completed something that the other may wait for
  void count_fault() { ++fault_count_; }
  void lose(); // tells every client that the device is gone, and stops what runs and the engines

 private:
  Engine& engine(emu_queue_kind kind) { return kind == EMU_QUEUE_COPY ? copy_ : compute_; }
  Span place(emu_queue_kind kind, uint64_t ready, const Work& work);
  void count(emu_queue_kind kind, const Work& work, const CoreClock& clock);
  uint64_t cooling_ticks() const; // throws Refusal
  void cool_down(uint64_t ticks);
  void note_firmware(const Firmware::Happened& happened);
  template <typename Operation>
  void firmware_operation(const Operation& operation);

  const std::string node_;
  const uint64_t tick_budget_;
  const std::chrono::milliseconds launch_limit_;
  const bool private_;
  const constants::Stepping& stepping_;
  const std::unique_ptr<Firmware> firmware_;
  Events events_;
  Faults faults_;
  Board& board_;
  PhysicalMemory memory_;
  machine::Pool pool_;
  Copier copier_;

  std::mutex reset_mutex_;
  mutable std::mutex contexts_mutex_; // what follows, and each step between running, failed and reset
  std::map<uint64_t, std::shared_ptr<Context>> contexts_;
  emu_error failure_{}; // why there can be no context until a reset; EMU_OK: none
  uint64_t next_context_id_ = 1;
  std::atomic<uint32_t> next_queue_id_{1};

  mutable std::mutex clock_mutex_; // all that follows
  uint64_t engine_ticks_[2] = {0, 0};
  emu_telemetry counters_{};
  Power power_; // stands where the compute engine does
  std::atomic<uint64_t> fault_count_{0};

  Accounts accounts_;
  Engine compute_; // last: their threads use all of the above
  Engine copy_;
};

} // namespace emu

#endif
