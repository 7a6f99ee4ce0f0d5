/* The faults that a device was told to have, and what each strikes (emu_fault of driver.h).
 *
 * What a fault does is done where it strikes. A device without faults pays for one look at `armed`. */
#ifndef EMU_FAULTS_H
#define EMU_FAULTS_H

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emu/driver.h"
#include "emu_constants.h"

namespace emu {

/* What spec/faults.toml says of a kind. */
const constants::Fault& about(emu_fault_kind kind);

class Faults {
 public:
  static constexpr size_t kMost = 64;
  static constexpr uint64_t kMostSlow = 1'000'000;

  /* False: no fault can strike. */
  bool armed() const noexcept { return armed_.load(std::memory_order_acquire); }
  bool slows() const noexcept; // one that makes commands slow can strike

  /* What is left out filled in; throws Refusal for what does not go together. */
  static emu_fault complete(emu_fault fault);
  static bool is_bit_error(const emu_fault& fault) {
    return fault.kind == EMU_FAULT_BIT_CORRECTED || fault.kind == EMU_FAULT_BIT_UNCORRECTED;
  }
  /* One that is complete; `context` is that of a bit error, or 0. Gives its number; throws Refusal. */
  uint64_t inject(const emu_fault& fault, uint64_t context);
  void clear(uint64_t number);                                    // 0: all; throws Refusal
  size_t list(emu_fault* out, size_t capacity) const noexcept;    // how many

  struct Target {
    pid_t process;
    uint32_t queue;
    uint32_t command; // emu_activity_kind
  };
  struct Strike {
    uint64_t factor = 1;      // of the command's ticks, at most kMostSlow
    uint64_t slowed_by = 0;   // the fault that has made a command slow now, and none before; else 0
    uint32_t kind = 0;        // what else strikes, or 0
    uint64_t number = 0;      // of that
  };
  Strike strike(const Target& command) noexcept;
  /* Of a kind that strikes elsewhere than at the start of a command: the number of the fault that does, or 0. */
  uint64_t strike_by(emu_fault_kind kind, const Target& target) noexcept;

  /* Bit errors in memory of a context, from `address` on. */
  struct BitErrors {
    uint64_t corrected = 0;
    bool uncorrected = false; // then none was corrected
    uint64_t address = 0;     // of the lowest uncorrected one
  };
  BitErrors read(uint64_t context, uint64_t address, uint64_t bytes) noexcept;
  void forget(uint64_t context, uint64_t address, uint64_t bytes) noexcept; // those that were found stay listed

 private:
  struct Entry {
    emu_fault fault;
    uint64_t context; // of a bit error
    uint64_t spared = 0;
    bool gone = false; // a bit error: its memory was written anew, or freed

    bool is_spent() const { return fault.times != 0 && fault.struck >= fault.times; }
    bool can_strike() const { return !gone && (fault.kind == EMU_FAULT_BIT_UNCORRECTED || !is_spent()); }
    bool lies_in(uint64_t context_, uint64_t address, uint64_t bytes) const {
      return is_bit_error(fault) && !gone && context == context_ && fault.address - address < bytes;
    }
    bool matches(const Target& target) const;
    bool is_due(); // for what it matches: spares it or not
  };
  void look() noexcept; // after each change

  std::atomic<bool> armed_{false};
  mutable std::mutex mutex_; // all that follows
  std::vector<Entry> entries_; // in order of their numbers
  uint64_t last_ = 0;
};

} // namespace emu

#endif
