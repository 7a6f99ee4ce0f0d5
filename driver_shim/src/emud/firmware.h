/* The firmware of one device: two slots, which one runs, and which one may.
 *
 * Whether a slot is good is not written down anywhere: its bytes say so, when emud first looks at them. So an upgrade
 * that was interrupted at any moment leaves the other slot as it was, and this one invalid. What is written down is
 * which slot runs, which one is to run next, which one ran before, and the highest rollback index that ever ran: in one
 * file, replaced whole. */
#ifndef EMU_FIRMWARE_H
#define EMU_FIRMWARE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "emu/driver.h"
#include "firmware_image.h"
#include "refusal.h"
#include "state_folder.h"

namespace emu {

class Firmware {
 public:
  /* For the event log. */
  struct Happened {
    emu_event_kind kind;
    emu_status status;
    std::string text;
  };

  /* Reads the folder; one that is new, or "" for none, gets the built-in image in slot 0. Throws Refusal. */
  explicit Firmware(const std::string& folder);

  /* Starts the slot that is pending, else the one that ran, else the one that ran before it, else the built-in image.
   * After three crashes with no boot between them but those that they made necessary, the other slot is tried first.
   * What is chosen to run anew starts only when the folder says so: where that cannot be written it stays chosen, and
   * the slot that ran starts. All else that a boot changes is found again by the next one, and needs no writing. */
  std::vector<Happened> boot();
  void crash() noexcept; // of what runs: the next boot is after it
  emu_firmware_info info() const;
  std::string version() const; // of what runs

  // Operations of driver.h; each throws Refusal.
  std::optional<Happened> write(uint64_t total, uint64_t offset, std::span<const std::byte> bytes);
  Happened activate();
  Happened rollback();

 private:
  struct State {
    uint32_t active = 0;
    uint32_t pending = EMU_NO_SLOT;
    uint32_t previous = EMU_NO_SLOT;
    uint32_t minimum = 0; // rollback index
    bool operator==(const State&) const = default;
  };

  static State parse_state(const std::vector<std::byte>& bytes);
  void save(const State& state);
  uint32_t other() const { return state_.active == 0 ? 1 : 0; }
  const ImageHeader& judge(uint32_t slot) const; // throws Refusal
  bool starts(uint32_t slot, State& state, std::vector<Happened>& happened) const;
  struct Start {
    State state; // once it runs
    std::string version;
    std::vector<Happened> happened;
  };
  Start next_start(uint32_t chosen, std::vector<Happened> happened) const; // after what has happened
  emu_firmware_slot describe(uint32_t slot) const;

  uint8_t key_[32];
  std::optional<StateFolder> folder_; // the slots' bytes are there too, where there is one
  mutable std::mutex mutex_;          // all that follows
  State state_;
  std::array<std::vector<std::byte>, 2> slots_;
  using Judgement = std::variant<std::monostate, ImageHeader, Refusal>; // none yet
  mutable std::array<Judgement, 2> judged_; // until its bytes change: anybody may ask, and hashing takes milliseconds
  uint64_t writing_ = 0; // bytes of the image that is on its way to the other slot; 0: none is
  std::string version_;
  uint32_t crashes_ = 0; // in a row, of what ran
  std::atomic<bool> has_crashed_{false}; // what runs; outside the lock, which is held over writes to the folder
};

} // namespace emu

#endif
