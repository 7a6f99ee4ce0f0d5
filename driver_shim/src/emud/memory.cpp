#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "emu_constants.h"
#include "entry.h"
#include "refusal.h"

namespace emu {
namespace {

constexpr uint64_t kPage = constants::kPageBytes;
constexpr unsigned kPageShift = unsigned(__builtin_ctzll(kPage));

#ifdef __SANITIZE_THREAD__
constexpr unsigned kWindowBits = 34; // the sanitizer shadows every byte: a full window takes it seconds
#else
constexpr unsigned kWindowBits = constants::kAddressBits;
#endif

constexpr uint8_t kReadWrite =
    machine::kPageMapped | machine::kPageMayRead | machine::kPageRead | machine::kPageWrite;

/* Of a page that is mapped, and false where it is not: beside others that change other flags. */
template <typename Next>
bool change(uint8_t* page, Next next) {
  uint8_t seen = __atomic_load_n(page, __ATOMIC_RELAXED);
  while ((seen & machine::kPageMapped) != 0) {
    uint8_t flags = next(seen);
    const bool readable = (flags & machine::kPageMayRead) != 0 && (flags & machine::kPageBitError) == 0;
    flags = uint8_t((flags & ~machine::kPageRead) | (readable ? machine::kPageRead : 0));
    if (__atomic_compare_exchange_n(page, &seen, flags, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  }
  return false;
}

/* The largest window that this host gives: all of the address bits where it can. */
Mapping reserve_window() {
  for (unsigned bits = kWindowBits; bits >= 32; --bits) {
    const size_t bytes = size_t(1) << bits;
    void* address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address != MAP_FAILED) {
      madvise(address, bytes, MADV_DONTDUMP);
      return Mapping(address, bytes);
    }
  }
  throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_CONTEXT,
                format("no address space for a context on the host: mmap: %s", std::strerror(errno)),
                "raise the limit on virtual memory (ulimit -v) of emud");
}

} // namespace

FreeList::FreeList(uint64_t offset, uint64_t bytes) : ranges_{{offset, bytes}}, bytes_(bytes) {}

FreeList::Range FreeList::take(uint64_t bytes) {
  auto found = ranges_.begin();
  while (found != ranges_.end() && found->second < bytes) ++found;
  if (found == ranges_.end()) return {};
  if (found->second == bytes) {
    bytes_ -= bytes;
    return ranges_.extract(found);
  }
  Ranges one{{found->first, bytes}}; // may throw
  Range rest = ranges_.extract(found);
  rest.key() += bytes;
  rest.mapped() -= bytes;
  ranges_.insert(std::move(rest));
  bytes_ -= bytes;
  return one.extract(one.begin());
}

std::vector<FreeList::Range> FreeList::take_scattered(uint64_t bytes) {
  std::vector<Range> taken(1);
  taken.front() = take(bytes);
  if (!taken.front().empty()) return taken;
  try {
    while (true) {
      taken.back() = take(std::min(ranges_.begin()->second, bytes));
      bytes -= taken.back().mapped();
      if (bytes == 0) return taken;
      taken.emplace_back();
    }
  } catch (...) {
    for (Range& range : taken) {
      if (!range.empty()) give_back(std::move(range));
    }
    throw;
  }
}

uint64_t FreeList::longest() const {
  uint64_t most = 0;
  for (const auto& [offset, bytes] : ranges_) most = std::max(most, bytes);
  return most;
}

void FreeList::give_back(Range range) noexcept {
  bytes_ += range.mapped();
  auto next = ranges_.upper_bound(range.key());
  if (next != ranges_.end() && range.key() + range.mapped() == next->first) {
    range.mapped() += next->second;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == range.key()) {
      before->second += range.mapped();
      return;
    }
  }
  ranges_.insert(std::move(range));
}

PhysicalMemory::PhysicalMemory(uint64_t bytes)
    : fd_(memfd_create("emu-device-memory", MFD_CLOEXEC)), total_(bytes), free_(0, bytes) {
  if (!fd_ || ftruncate(fd_.get(), off_t(bytes)) != 0) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE,
                  format("no memfd of %llu bytes for device memory: %s", (unsigned long long)bytes,
                         std::strerror(errno)));
  }
}

uint64_t PhysicalMemory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_.bytes();
}

PhysicalMemory::Use PhysicalMemory::use() const {
  const std::lock_guard lock(mutex_);
  return {total_ - free_.bytes(), peak_, free_.longest(), corrected_errors_, uncorrected_errors_};
}

void PhysicalMemory::count_errors(uint64_t corrected, uint64_t uncorrected) noexcept {
  const std::lock_guard lock(mutex_);
  corrected_errors_ += corrected;
  uncorrected_errors_ += uncorrected;
}

PhysicalMemory::Pages PhysicalMemory::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (free_.bytes() < bytes) return {};
  Pages taken(*this, free_.take_scattered(bytes));
  peak_ = std::max(peak_, total_ - free_.bytes());
  return taken;
}

void PhysicalMemory::give_back(std::vector<FreeList::Range>& extents) noexcept {
  for (FreeList::Range& extent : extents) {
    // Before the pages can be taken again: fresh memory shows nobody's bytes.
    if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(extent.key()),
                  off_t(extent.mapped())) != 0) {
      continue; // better lost than handed out with old contents
    }
    const std::lock_guard lock(mutex_);
    free_.give_back(std::move(extent));
  }
}

Window::Window(PhysicalMemory& memory, uint64_t base, Quota& mappings)
    : memory_(memory), base_(base), mappings_(mappings), window_(reserve_window()),
      addresses_(base + constants::kNullGuardBytes, window_.bytes() - constants::kNullGuardBytes) {
  const size_t bytes = window_.bytes() >> kPageShift;
  pages_ = Mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                   bytes);
  if (!pages_) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_CONTEXT, format("no page table: mmap: %s", std::strerror(errno)));
  }
}

void Window::free_all() noexcept {
  while (!allocations_.empty()) free(allocations_.begin()->first);
}

std::optional<uint64_t> Window::alloc(uint64_t bytes) {
  if (bytes > window_.bytes()) return std::nullopt;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  Allocation made{{}, memory_.take(bytes), {}};
  if (!made.pages) return std::nullopt;
  made.mappings = Quota::Share(mappings_, made.pages.extents().size());
  auto entry = new_entry<Allocations>();
  made.addresses = addresses_.take(bytes);
  if (made.addresses.empty()) return std::nullopt;
  const uint64_t address = made.addresses.key();
  std::byte* at = host(address);
  for (const FreeList::Range& extent : made.pages.extents()) {
    if (mmap(at, extent.mapped(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_.fd(), off_t(extent.key())) ==
        MAP_FAILED) {
      const int error = errno;
      unmap(address, bytes);
      addresses_.give_back(std::move(made.addresses));
      throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND,
                    format("device pages cannot be mapped on the host: mmap: %s", std::strerror(error)),
                    "use fewer, larger allocations, or raise vm.max_map_count");
    }
    madvise(at, extent.mapped(), MADV_HUGEPAGE); // where the host has it for shared memory
    at += extent.mapped();
  }
  set_pages(address, bytes, kReadWrite);
  entry.key() = address;
  entry.mapped() = std::move(made);
  allocations_.insert(std::move(entry));
  held_ += bytes;
  return address;
}

uint64_t Window::free(uint64_t address) noexcept {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return 0;
  const uint64_t bytes = found->second.addresses.mapped();
  set_pages(address, bytes, 0);
  unmap(address, bytes);
  addresses_.give_back(std::move(found->second.addresses));
  allocations_.erase(found); // and its pages
  held_ -= bytes;
  return bytes;
}

machine::AddressSpace Window::space() const {
  return {static_cast<std::byte*>(window_.get()), window_.bytes(), static_cast<const uint8_t*>(pages_.get()),
          kPageShift, base_};
}

uint8_t* Window::flags(uint64_t address) const {
  const uint64_t offset = address - base_;
  return offset < window_.bytes() ? static_cast<uint8_t*>(pages_.get()) + (offset >> kPageShift) : nullptr;
}

std::optional<uint64_t> Window::protect(uint64_t address, uint64_t bytes, uint8_t permissions) noexcept {
  for (uint64_t at = address; at - address < bytes; at += kPage) {
    if (!holds(at)) return at;
  }
  for (uint64_t at = address; at - address < bytes; at += kPage) {
    change(flags(at), [&](uint8_t seen) {
      return uint8_t((seen & (machine::kPageMapped | machine::kPageBitError)) | permissions);
    });
  }
  return std::nullopt;
}

bool Window::damage(uint64_t address) noexcept {
  uint8_t* const page = flags(address);
  return page != nullptr && change(page, [](uint8_t seen) { return uint8_t(seen | machine::kPageBitError); });
}

bool Window::holds(uint64_t address) const noexcept {
  const uint8_t* const page = flags(address);
  return page != nullptr && (__atomic_load_n(page, __ATOMIC_ACQUIRE) & machine::kPageMapped) != 0;
}

bool Window::is_damaged(uint64_t address) const noexcept {
  const uint8_t* const page = flags(address);
  return page != nullptr && (__atomic_load_n(page, __ATOMIC_ACQUIRE) & machine::kPageBitError) != 0;
}

void Window::mend(uint64_t address) noexcept {
  change(flags(address), [](uint8_t seen) { return uint8_t(seen & ~machine::kPageBitError); });
}

/* Beside a running program of the same context when memory is allocated: single bytes, atomically. */
void Window::set_pages(uint64_t address, uint64_t bytes, uint8_t permission) {
  auto* pages = static_cast<uint8_t*>(pages_.get());
  address -= base_;
  for (uint64_t page = address >> kPageShift, end = (address + bytes) >> kPageShift; page < end; ++page) {
    __atomic_store_n(&pages[page], permission, __ATOMIC_RELEASE);
  }
}

void Window::unmap(uint64_t address, uint64_t bytes) {
  mmap(host(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

} // namespace emu
