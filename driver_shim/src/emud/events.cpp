#include "events.h"

#include <algorithm>
#include <cstring>

namespace emu {

emu_event new_event(emu_event_kind kind, emu_status status, emu_scope scope) {
  emu_event event{};
  event.size = sizeof event;
  event.kind = kind;
  event.queue = UINT32_MAX;
  event.status = status;
  event.scope = scope;
  return event;
}

namespace {

/* The others are of the device itself, or of its owner. A loss has the scope of its cause, and there are as many as
 * clients have contexts. */
bool is_of_any_client(const emu_event& event) {
  return event.kind == EMU_EVENT_CONTEXT_LOST ||
         (event.scope < EMU_SCOPE_DEVICE && event.kind != EMU_EVENT_INJECTION);
}

} // namespace

uint64_t Events::add(const emu_event& event, std::optional<uid_t> user) noexcept {
  const std::lock_guard lock(mutex_);
  Ring& ring = is_of_any_client(event) ? clients_ : device_;
  Entry& place = ring.entries[ring.added++ % constants::kEvents];
  place = {event, user};
  return place.event.sequence = ++last_;
}

uint64_t Events::Ring::after(uint64_t number) const {
  uint64_t n = added - std::min<uint64_t>(added, constants::kEvents);
  while (n < added && at(n).event.sequence <= number) ++n;
  return n;
}

size_t Events::read(uint64_t after, std::optional<uid_t> reader, emu_event* out, size_t capacity,
                    uint64_t& dropped) const noexcept {
  const std::lock_guard lock(mutex_);
  uint64_t own = device_.after(after), theirs = clients_.after(after);
  size_t count = 0;
  for (; count < capacity && (own < device_.added || theirs < clients_.added); ++count) {
    const auto number = [](const Ring& ring, uint64_t n) {
      return n < ring.added ? ring.at(n).event.sequence : UINT64_MAX;
    };
    const bool next_is_own = number(device_, own) < number(clients_, theirs);
    const Entry& entry = next_is_own ? device_.at(own++) : clients_.at(theirs++);
    out[count] = entry.event;
    if (reader && entry.user && entry.user != reader) std::memset(out[count].text, 0, sizeof out[count].text);
  }
  dropped = count == 0 ? 0 : out[count - 1].sequence - after - count;
  return count;
}

} // namespace emu
