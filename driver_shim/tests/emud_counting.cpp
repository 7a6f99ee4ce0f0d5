/* operator new and delete of an emud whose allocations a case counts, and makes fail (allocations.h). */
#include "allocations.h"

#include <new>

namespace {

emu::test::Allocations* the_file() {
  static emu::test::Allocations* const file = emu::test::map_allocations(std::getenv(emu::test::kAllocationsFile));
  return file;
}

void* allocate(size_t bytes, size_t alignment) {
  emu::test::Allocations* const file = the_file();
  if (file != nullptr && file->count.fetch_add(1) + 1 == file->fail_at) throw std::bad_alloc();
  void* const at = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  if (file != nullptr) file->live += 1;
  return at;
}

void release(void* at) {
  if (at != nullptr && the_file() != nullptr) the_file()->live -= 1;
  std::free(at);
}

} // namespace

// The other forms call these.
void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocate(bytes, size_t(alignment)); }
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, size_t) noexcept { release(at); }
void operator delete(void* at, std::align_val_t) noexcept { release(at); }
void operator delete(void* at, size_t, std::align_val_t) noexcept { release(at); }
