/* Steppings and their errata, as machine.toml has them: what the device does, and what a client does about it. */
#ifndef EMU_STEPPING_H
#define EMU_STEPPING_H

#include <cstdint>
#include <string_view>

#include "emu_constants.h"

namespace emu {

/* Null for one that this build does not know. */
inline const constants::Stepping* find_stepping(std::string_view name) {
  for (const constants::Stepping& stepping : constants::kSteppings) {
    if (name == stepping.name) return &stepping;
  }
  return nullptr;
}

/* Bytes of arguments with what fills their last granule. */
constexpr uint64_t whole_granules(uint64_t bytes) {
  return (bytes + constants::kArgumentGranule - 1) / constants::kArgumentGranule * constants::kArgumentGranule;
}

} // namespace emu

#endif
