#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "emu_constants.h"
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

std::optional<uint64_t> FreeList::take(uint64_t bytes) {
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    const auto [offset, length] = *it;
    if (length < bytes) continue;
    ranges_.erase(it);
    if (length > bytes) ranges_.emplace(offset + bytes, length - bytes);
    bytes_ -= bytes;
    return offset;
  }
  return std::nullopt;
}

std::vector<Extent> FreeList::take_scattered(uint64_t bytes) {
  if (const auto whole = take(bytes)) return {{*whole, bytes}};
  std::vector<Extent> extents;
  while (bytes > 0) {
    const uint64_t length = std::min(ranges_.begin()->second, bytes);
    extents.push_back({*take(length), length});
    bytes -= length;
  }
  return extents;
}

void FreeList::give_back(Extent extent) {
  bytes_ += extent.bytes;
  auto next = ranges_.upper_bound(extent.offset);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == extent.offset) {
      extent = {before->first, before->second + extent.bytes};
      ranges_.erase(before);
    }
  }
  if (next != ranges_.end() && extent.offset + extent.bytes == next->first) {
    extent.bytes += next->second;
    ranges_.erase(next);
  }
  ranges_.emplace(extent.offset, extent.bytes);
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

std::vector<Extent> PhysicalMemory::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (free_.bytes() < bytes) return {};
  return free_.take_scattered(bytes);
}

void PhysicalMemory::give_back(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    // Before the pages can be taken again: fresh memory shows nobody's bytes.
    if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(extent.offset),
                  off_t(extent.bytes)) != 0) {
      continue; // better lost than handed out with old contents
    }
    const std::lock_guard lock(mutex_);
    free_.give_back(extent);
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

void Window::free_all() {
  while (!allocations_.empty()) free(allocations_.begin()->first);
}

std::optional<uint64_t> Window::alloc(uint64_t bytes) {
  if (bytes > window_.bytes()) return std::nullopt;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  std::vector<Extent> extents = memory_.take(bytes);
  if (extents.empty()) return std::nullopt;
  Quota::Share mappings;
  try {
    mappings = Quota::Share(mappings_, extents.size());
  } catch (...) {
    memory_.give_back(extents);
    throw;
  }
  const auto address = addresses_.take(bytes);
  if (!address) {
    memory_.give_back(extents);
    return std::nullopt;
  }
  std::byte* at = host(*address);
  for (const Extent& extent : extents) {
    if (mmap(at, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_.fd(), off_t(extent.offset)) ==
        MAP_FAILED) {
      const int error = errno;
      unmap(*address, bytes);
      addresses_.give_back({*address, bytes});
      memory_.give_back(extents);
      throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND,
                    format("device pages cannot be mapped on the host: mmap: %s", std::strerror(error)),
                    "use fewer, larger allocations, or raise vm.max_map_count");
    }
    madvise(at, extent.bytes, MADV_HUGEPAGE); // where the host has it for shared memory
    at += extent.bytes;
  }
  set_pages(*address, bytes, machine::kPageRead | machine::kPageWrite);
  allocations_.emplace(*address, Allocation{bytes, std::move(extents), std::move(mappings)});
  held_ += bytes;
  return address;
}

bool Window::free(uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const uint64_t bytes = found->second.bytes;
  set_pages(address, bytes, 0);
  unmap(address, bytes);
  memory_.give_back(found->second.extents);
  addresses_.give_back({address, bytes});
  allocations_.erase(found);
  held_ -= bytes;
  return true;
}

machine::AddressSpace Window::space() const {
  return {static_cast<std::byte*>(window_.get()), window_.bytes(), static_cast<const uint8_t*>(pages_.get()),
          kPageShift, base_};
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
