/* Checked access to device memory: every byte that a program touches was asked for here. */
#ifndef EMU_MACHINE_ACCESS_H
#define EMU_MACHINE_ACCESS_H

#include "machine.h"

namespace emu::machine {

/* First address of [address, address + bytes) that may not be accessed, or none. bytes > 0. */
inline std::optional<uint64_t> first_bad(const AddressSpace& space, uint64_t address, uint64_t bytes,
                                         uint8_t permission) {
  if (address >= space.bytes) return address;
  const uint64_t inside = bytes <= space.bytes - address ? bytes : space.bytes - address;
  const uint64_t last = (address + inside - 1) >> space.page_shift;
  for (uint64_t page = address >> space.page_shift; page <= last; ++page)
    if ((space.pages[page] & permission) == 0) {
      const uint64_t start = page << space.page_shift;
      return start > address ? start : address;
    }
  if (inside != bytes) return space.bytes;
  return std::nullopt;
}

/* The same for one aligned element, which lies in one page. */
inline bool element_ok(const AddressSpace& space, uint64_t address, uint64_t bytes, uint8_t permission) {
  return address < space.bytes && bytes <= space.bytes - address &&
         (space.pages[address >> space.page_shift] & permission) != 0;
}

}  // namespace emu::machine

#endif
