/* Checked access to device memory: every byte that a program touches was asked for here. */
#ifndef EMU_MACHINE_ACCESS_H
#define EMU_MACHINE_ACCESS_H

#include "machine.h"

namespace emu::machine {

/* Whether it is for a bit error, and not for its permissions, that a page of these flags is refused. */
inline bool has_bit_error(uint8_t flags, uint8_t permission) {
  return permission == kPageRead && (flags & kPageMayRead) != 0 && (flags & kPageBitError) != 0;
}

/* Of a page that cannot be accessed as it is: whether it can be read after all. */
[[gnu::noinline, gnu::cold]] inline bool corrected(const AddressSpace& space, uint64_t page, uint8_t flags,
                                                    uint8_t permission) {
  return has_bit_error(flags, permission) && space.correction != nullptr && space.correction->correct(page);
}

inline bool page_ok(const AddressSpace& space, uint64_t page, uint8_t permission) {
  const uint8_t flags = __atomic_load_n(&space.pages[page], __ATOMIC_RELAXED);
  return __builtin_expect((flags & permission) != 0, 1) || corrected(space, page, flags, permission);
}

/* Whether an access that is refused is so for a bit error; the address is that of the refusal. */
inline bool has_bit_error(const AddressSpace& space, uint64_t address, uint8_t permission) {
  const uint64_t offset = address - space.base;
  return offset < space.bytes &&
         has_bit_error(__atomic_load_n(&space.pages[offset >> space.page_shift], __ATOMIC_RELAXED), permission);
}

inline bool is_mapped(const AddressSpace& space, uint64_t address) {
  const uint64_t offset = address - space.base;
  return offset < space.bytes &&
         (__atomic_load_n(&space.pages[offset >> space.page_shift], __ATOMIC_RELAXED) & kPageMapped) != 0;
}

/* First address of [address, address + bytes) that may not be accessed, or none. bytes > 0. */
inline std::optional<uint64_t> first_bad(const AddressSpace& space, uint64_t address, uint64_t bytes,
                                         uint8_t permission) {
  const uint64_t offset = address - space.base; /* below the base it wraps, and is out of bounds too */
  if (offset >= space.bytes) return address;
  const uint64_t inside = bytes <= space.bytes - offset ? bytes : space.bytes - offset;
  const uint64_t last = (offset + inside - 1) >> space.page_shift;
  for (uint64_t page = offset >> space.page_shift; page <= last; ++page)
    if (!page_ok(space, page, permission)) {
      const uint64_t start = space.base + (page << space.page_shift);
      return start > address ? start : address;
    }
  if (inside != bytes) return space.base + space.bytes;
  return std::nullopt;
}

/* Whether one aligned element, which lies in one page, may be accessed; by its offset from the base. */
inline bool element_ok(const AddressSpace& space, uint64_t offset, uint64_t bytes, uint8_t permission) {
  return offset < space.bytes && bytes <= space.bytes - offset &&
         page_ok(space, offset >> space.page_shift, permission);
}

}  // namespace emu::machine

#endif
