/* Device memory: physical pages in one memfd, and the address space of a context.
 *
 * The memfd is known to emud alone. A page that is given back is punched out of it, so
 * that it reads as zero when it is handed out again and costs the host nothing meanwhile. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "descriptor.h"
#include "machine.h"
#include "quota.h"

namespace emu {

/* A range, in bytes. */
struct Extent {
  uint64_t offset;
  uint64_t bytes;
};

/* Free ranges of some space, first fit, neighbours merged. Not locked. */
class FreeList {
 public:
  FreeList(uint64_t offset, uint64_t bytes);
  std::optional<uint64_t> take(uint64_t bytes);       // one range
  std::vector<Extent> take_scattered(uint64_t bytes); // several; there must be enough
  void give_back(Extent extent);
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<uint64_t, uint64_t> ranges_; // offset -> bytes
  uint64_t bytes_;
};

class PhysicalMemory {
 public:
  explicit PhysicalMemory(uint64_t bytes); // throws Refusal
  int fd() const { return fd_.get(); }
  uint64_t total() const { return total_; }
  uint64_t free_bytes() const;
  std::vector<Extent> take(uint64_t bytes); // empty when there is not enough
  void give_back(const std::vector<Extent>& extents);

 private:
  Descriptor fd_;
  const uint64_t total_;
  mutable std::mutex mutex_;
  FreeList free_;
};

/* Not locked: the context does that. `free` must not run beside a command of the context. */
class Window {
 public:
  /* Addresses from `base`; its pages count as mappings of the client. Throws Refusal. */
  Window(PhysicalMemory& memory, uint64_t base, Quota& mappings);
  ~Window() { free_all(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::optional<uint64_t> alloc(uint64_t bytes); // address; nothing when physical memory is short
  bool free(uint64_t address);                   // false: not the start of an allocation
  void free_all();
  machine::AddressSpace space() const;
  uint64_t held_bytes() const { return held_; }
  size_t allocations() const { return allocations_.size(); }

 private:
  struct Allocation {
    uint64_t bytes;
    std::vector<Extent> extents;
    Quota::Share mappings;
  };
  void set_pages(uint64_t address, uint64_t bytes, uint8_t permission);
  void unmap(uint64_t address, uint64_t bytes);
  std::byte* host(uint64_t address) const { return static_cast<std::byte*>(window_.get()) + (address - base_); }

  PhysicalMemory& memory_;
  const uint64_t base_;
  Quota& mappings_;
  Mapping window_;
  Mapping pages_;
  FreeList addresses_;
  std::map<uint64_t, Allocation> allocations_;
  uint64_t held_ = 0;
};

} // namespace emu

#endif
