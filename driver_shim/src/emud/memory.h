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
#include <utility>
#include <vector>

#include "descriptor.h"
#include "machine.h"
#include "quota.h"

namespace emu {

/* Free ranges of some space, first fit, neighbours merged. Not locked.
 *
 * A range that is taken keeps its node of the list, so that giving it back needs no memory of the host. */
class FreeList {
  using Ranges = std::map<uint64_t, uint64_t>; // offset -> bytes

 public:
  using Range = Ranges::node_type; // key(): offset, mapped(): bytes

  FreeList(uint64_t offset, uint64_t bytes);
  Range take(uint64_t bytes);                        // one range; empty when none is so long
  std::vector<Range> take_scattered(uint64_t bytes); // several; there must be enough
  void give_back(Range range) noexcept;
  uint64_t bytes() const { return bytes_; }
  uint64_t longest() const;

 private:
  Ranges ranges_;
  uint64_t bytes_;
};

class PhysicalMemory {
 public:
  /* Taken pages, which go back when this ends. */
  class Pages {
   public:
    Pages() = default;
    Pages(PhysicalMemory& memory, std::vector<FreeList::Range> extents)
        : memory_(&memory), extents_(std::move(extents)) {}
    Pages(Pages&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), extents_(std::move(other.extents_)) {}
    Pages& operator=(Pages&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(extents_, other.extents_);
      return *this;
    }
    ~Pages() {
      if (memory_ != nullptr) memory_->give_back(extents_);
    }
    explicit operator bool() const { return memory_ != nullptr; }
    const std::vector<FreeList::Range>& extents() const { return extents_; }

   private:
    PhysicalMemory* memory_ = nullptr;
    std::vector<FreeList::Range> extents_;
  };

  explicit PhysicalMemory(uint64_t bytes); // throws Refusal
  int fd() const { return fd_.get(); }
  uint64_t total() const { return total_; }
  uint64_t free_bytes() const;
  struct Use {
    uint64_t used_bytes, peak_bytes, largest_free_bytes, corrected_errors, uncorrected_errors;
  };
  Use use() const;
  Pages take(uint64_t bytes); // none when there is not enough
  void count_errors(uint64_t corrected, uint64_t uncorrected) noexcept; // of bits, that were found

 private:
  void give_back(std::vector<FreeList::Range>& extents) noexcept;

  Descriptor fd_;
  const uint64_t total_;
  mutable std::mutex mutex_;
  FreeList free_;
  uint64_t peak_ = 0;
  uint64_t corrected_errors_ = 0;
  uint64_t uncorrected_errors_ = 0;
};

/* Not locked: the context does that. What throws has changed nothing; what gives back does not throw. `free` must not
 * run beside a command of the context. */
class Window {
 public:
  /* Addresses from `base`; its pages count as mappings of the client. Throws Refusal. */
  Window(PhysicalMemory& memory, uint64_t base, Quota& mappings);
  ~Window() { free_all(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::optional<uint64_t> alloc(uint64_t bytes); // address; nothing when physical memory is short
  uint64_t free(uint64_t address) noexcept;      // bytes; 0: not the start of an allocation
  /* Whole pages that are mapped may be read and written as these flags of machine.h say. Gives the first address that
   * is not mapped, and has changed nothing then. Not beside a command of the context. */
  std::optional<uint64_t> protect(uint64_t address, uint64_t bytes, uint8_t permissions) noexcept;
  // Beside anything: only flags of the page change.
  bool damage(uint64_t address) noexcept; // its page has a bit error; false: no page is mapped there
  bool holds(uint64_t address) const noexcept; // a page is mapped there
  bool is_damaged(uint64_t address) const noexcept;
  void mend(uint64_t address) noexcept;
  void free_all() noexcept;
  machine::AddressSpace space() const;
  uint64_t held_bytes() const { return held_; }
  size_t allocations() const { return allocations_.size(); }

 private:
  struct Allocation {
    FreeList::Range addresses;
    PhysicalMemory::Pages pages;
    Quota::Share mappings;
  };
  using Allocations = std::map<uint64_t, Allocation>; // by address
  uint8_t* flags(uint64_t address) const; // of the page; null: out of the window
  void set_pages(uint64_t address, uint64_t bytes, uint8_t permission);
  void unmap(uint64_t address, uint64_t bytes);
  std::byte* host(uint64_t address) const { return static_cast<std::byte*>(window_.get()) + (address - base_); }

  PhysicalMemory& memory_;
  const uint64_t base_;
  Quota& mappings_;
  Mapping window_;
  Mapping pages_;
  FreeList addresses_;
  Allocations allocations_;
  uint64_t held_ = 0;
};

} // namespace emu

#endif
