/* An emud whose allocations and calls of the host a case counts, and makes fail (allocations.h). The linker puts what
 * is here in the place of operator new and delete, and of the calls. */
#include "allocations.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>

namespace {

emu::test::Allocations* mapped = nullptr; // by the first allocation, which is before there are threads

emu::test::Allocations* the_file() {
  static emu::test::Allocations* const file =
      mapped = emu::test::map_allocations(std::getenv(emu::test::kAllocationsFile));
  return file;
}

void* allocate(size_t bytes, size_t alignment) {
  emu::test::Allocations* const file = the_file();
  if (file != nullptr && file->this_one_fails()) throw std::bad_alloc();
  void* const at = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  if (file != nullptr) file->live += 1;
  return at;
}

void release(void* at) {
  if (at != nullptr && the_file() != nullptr) the_file()->live -= 1;
  std::free(at);
}

bool call_fails(int number) {
  if (mapped == nullptr || !mapped->calls.this_one_fails()) return false; // mapping it is such a call
  errno = number;
  return true;
}

} // namespace

// The other forms call these.
void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocate(bytes, size_t(alignment)); }
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, size_t) noexcept { release(at); }
void operator delete(void* at, std::align_val_t) noexcept { release(at); }
void operator delete(void* at, size_t, std::align_val_t) noexcept { release(at); }

extern "C" {

ssize_t __real_sendmsg(int socket, const msghdr* message, int flags);
ssize_t __wrap_sendmsg(int socket, const msghdr* message, int flags) {
  return call_fails(ENOBUFS) ? -1 : __real_sendmsg(socket, message, flags);
}

ssize_t __real_recvmsg(int socket, msghdr* message, int flags);
ssize_t __wrap_recvmsg(int socket, msghdr* message, int flags) {
  return call_fails(ENOMEM) ? -1 : __real_recvmsg(socket, message, flags);
}

int __real_accept4(int socket, sockaddr* address, socklen_t* bytes, int flags);
int __wrap_accept4(int socket, sockaddr* address, socklen_t* bytes, int flags) {
  return call_fails(EMFILE) ? -1 : __real_accept4(socket, address, bytes, flags);
}

int __real_epoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return call_fails(ENOSPC) ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __real_epoll_wait(int epoll, epoll_event* events, int most, int timeout);
int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  return call_fails(EINTR) ? -1 : __real_epoll_wait(epoll, events, most, timeout);
}

void* __real_mmap(void* at, size_t bytes, int access, int flags, int fd, off_t offset);
void* __wrap_mmap(void* at, size_t bytes, int access, int flags, int fd, off_t offset) {
  return call_fails(ENOMEM) ? MAP_FAILED : __real_mmap(at, bytes, access, flags, fd, offset);
}

int __real_memfd_create(const char* name, unsigned flags);
int __wrap_memfd_create(const char* name, unsigned flags) {
  return call_fails(EMFILE) ? -1 : __real_memfd_create(name, flags);
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags) {
  return call_fails(EMFILE) ? -1 : __real_eventfd(value, flags);
}

int __real_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes) {
  return call_fails(ENOSPC) ? -1 : __real_ftruncate(fd, bytes);
}

ssize_t __real_pread(int fd, void* to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void* to, size_t bytes, off_t offset) {
  return call_fails(EIO) ? -1 : __real_pread(fd, to, bytes, offset);
}

long __real_syscall(long number, ...); // futexes
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return call_fails(EINTR) ? -1 : __real_syscall(number, a, b, c, d, e, f);
}

} // extern "C"
