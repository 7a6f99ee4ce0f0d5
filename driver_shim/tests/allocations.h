/* How a case makes allocations and calls of emud fail: a file that both map, named in EMU_TEST_ALLOCATIONS. */
#ifndef EMU_TEST_ALLOCATIONS_H
#define EMU_TEST_ALLOCATIONS_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace emu::test {

struct Counted {
  std::atomic<uint64_t> fail_at; // which one, from 1; 0 for none
  std::atomic<uint64_t> count;   // since the case set it to 0
  bool this_one_fails() { return count.fetch_add(1) + 1 == fail_at; }
};
struct Allocations : Counted {
  std::atomic<int64_t> live; // made and not freed
  Counted calls;             // of the host
};
constexpr const char* kAllocationsFile = "EMU_TEST_ALLOCATIONS";

/* Null when there is no such file. */
inline Allocations* map_allocations(const char* path) {
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = mmap(nullptr, sizeof(Allocations), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<Allocations*>(at);
}

} // namespace emu::test

#endif
