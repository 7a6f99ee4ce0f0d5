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

uint64_t Events::add(const emu_event& event, std::optional<uid_t> user) noexcept {
  const std::lock_guard lock(mutex_);
  Entry& place = events_[last_ % constants::kEvents];
  place = {event, user};
  return place.event.sequence = ++last_;
}

size_t Events::read(uint64_t after, std::optional<uid_t> reader, emu_event* out, size_t capacity,
                    uint64_t& dropped) const noexcept {
  const std::lock_guard lock(mutex_);
  const uint64_t gone = last_ - std::min<uint64_t>(last_, constants::kEvents); // numbers up to here
  dropped = gone > after ? gone - after : 0;
  uint64_t next = std::max(after, gone);
  size_t count = 0;
  for (; count < capacity && next < last_; ++count, ++next) {
    const Entry& entry = events_[next % constants::kEvents];
    out[count] = entry.event;
    if (reader && entry.user && entry.user != reader) std::memset(out[count].text, 0, sizeof out[count].text);
  }
  return count;
}

} // namespace emu
