/* The event log of a device: the last ones, in memory that is there from the start. */
#ifndef EMU_EVENTS_H
#define EMU_EVENTS_H

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "emu/driver.h"
#include "emu_constants.h"

namespace emu {

/* Of no process, context or queue yet; `add` numbers it. */
emu_event new_event(emu_event_kind kind, emu_status status, emu_scope scope);

class Events {
 public:
  /* Its number; the oldest one goes when there is no place. `user`: whom it is about. */
  uint64_t add(const emu_event& event, std::optional<uid_t> user) noexcept;
  /* Those after number `after`, oldest first; how many. `dropped`: how many of them are gone. `reader` is told no text
   * that is about another user; none is told all. */
  size_t read(uint64_t after, std::optional<uid_t> reader, emu_event* out, size_t capacity,
              uint64_t& dropped) const noexcept;

 private:
  mutable std::mutex mutex_;
  struct Entry {
    emu_event event;
    std::optional<uid_t> user;
  };
  std::array<Entry, constants::kEvents> events_{}; // number n is at (n - 1) % kEvents
  uint64_t last_ = 0;
};

} // namespace emu

#endif
