/* The event log of a device: the last ones, in memory that is there from the start. */
#ifndef EMU_EVENTS_H
#define EMU_EVENTS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "emu/driver.h"
#include "emu_constants.h"

namespace emu {

/* Of no process, context or queue yet; `add` numbers it. */
emu_event new_event(emu_event_kind kind, emu_status status, emu_scope scope);

class Events {
 public:
  uint64_t add(const emu_event& event) noexcept; // its number; the oldest one goes when there is no place
  /* Those after number `after`, oldest first; how many. `dropped`: how many of them are gone. */
  size_t read(uint64_t after, emu_event* out, size_t capacity, uint64_t& dropped) const noexcept;

 private:
  mutable std::mutex mutex_;
  std::array<emu_event, constants::kEvents> events_{}; // number n is at (n - 1) % kEvents
  uint64_t last_ = 0;
};

} // namespace emu

#endif
