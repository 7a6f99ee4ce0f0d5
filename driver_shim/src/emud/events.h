/* The event log of a device: the last ones, in memory that is there from the start.
 *
 * What any client can cause has a place of its own: it is no way to have what the device did forgotten. */
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
  /* Its number; the oldest one of its place goes when there is none left. `user`: whom it is about. */
  uint64_t add(const emu_event& event, std::optional<uid_t> user) noexcept;
  /* Those after number `after`, oldest first; how many. `dropped`: how many are gone between `after` and the last that
   * is given. `reader` is told no text that is about another user; none is told all. */
  size_t read(uint64_t after, std::optional<uid_t> reader, emu_event* out, size_t capacity,
              uint64_t& dropped) const noexcept;

 private:
  mutable std::mutex mutex_;
  struct Entry {
    emu_event event;
    std::optional<uid_t> user;
  };
  /* The last of a kind, by number: the n-th from 0 is at n % kEvents. */
  struct Ring {
    std::array<Entry, constants::kEvents> entries{};
    uint64_t added = 0;

    const Entry& at(uint64_t n) const { return entries[n % constants::kEvents]; }
    uint64_t after(uint64_t number) const; // the first with a higher one
  };
  Ring device_, clients_;
  uint64_t last_ = 0;
};

} // namespace emu

#endif
