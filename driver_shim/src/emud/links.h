/* The links that join the devices of one emud: machine.toml says which, how fast and with what delay.
 *
 * A link carries one copy at a time each way. It can be taken down, as a cable is pulled. */
#ifndef EMU_LINKS_H
#define EMU_LINKS_H

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "emu/driver.h"
#include "emu_constants.h"

namespace emu {

class Link {
 public:
  Link(uint32_t index, const constants::LinkSpec& spec) : index_(index), spec_(spec) {}

  uint32_t index() const { return index_; }
  bool joins(uint32_t one, uint32_t other) const {
    return (spec_.low == one && spec_.high == other) || (spec_.low == other && spec_.high == one);
  }
  uint64_t ticks(uint64_t bytes) const {
    return spec_.latency_ticks + (bytes + spec_.bytes_per_tick - 1) / spec_.bytes_per_tick;
  }
  emu_link_info info() const;

  std::atomic<bool> up{true};
  std::atomic<uint64_t> errors{0}; // copies that found it down

  /* One way of it. Used under `mutex`. */
  struct Way {
    uint64_t free_at = 0; // on the device clock
    uint64_t copies = 0, bytes = 0, busy_ticks = 0;
  };
  Way& way(uint32_t from) { return ways_[from == spec_.low ? 0 : 1]; }
  mutable std::mutex mutex;

 private:
  const uint32_t index_;
  const constants::LinkSpec& spec_;
  Way ways_[2];
};

class Links {
 public:
  explicit Links(uint32_t devices);
  Link& at(uint64_t index);                       // throws Refusal
  Link* between(uint32_t one, uint32_t other);    // nullptr: they are not joined

 private:
  std::deque<Link> links_; // a link cannot be moved
};

} // namespace emu

#endif
