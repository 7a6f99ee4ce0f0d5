/* Preloaded: each call that a client's library makes of its host fails when a case says so (failing_calls.h). */
#include "failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

extern "C" {
__attribute__((visibility("default"))) emu::test::FailingCalls emu_test_failing_calls{};
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* at);
}

namespace {

auto& calls = emu_test_failing_calls;

bool fails(const char* name) {
  if (!calls.armed) return false;
  calls.count += 1;
  if (calls.count != calls.fail_at) return false;
  calls.failed = name;
  return true;
}

constexpr size_t kMost = 4096;
void* made[kMost]; // while armed, and not freed

void* note(void* at) {
  if (calls.armed && at != nullptr && size_t(calls.live) < kMost) made[calls.live++] = at;
  return at;
}

void forget(const void* at) {
  for (int64_t i = calls.live - 1; i >= 0; --i) {
    if (made[i] != at) continue;
    made[i] = made[--calls.live];
    return;
  }
}

template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <typename Result>
Result refused(int number, Result result) {
  errno = number;
  return result;
}

} // namespace

// The C library's call of that name, looked up before anything is armed.
#define NEXT(name) static const auto real_##name = next(&::name, #name)
NEXT(sendmsg);
NEXT(recvmsg);
NEXT(socket);
NEXT(socketpair);
NEXT(connect);
NEXT(mmap);
NEXT(memfd_create);
NEXT(posix_fallocate);
NEXT(fcntl);
NEXT(poll);
NEXT(write);
NEXT(posix_spawn);
NEXT(syscall);

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* malloc(size_t bytes) {
  if (fails("malloc")) return refused<void*>(ENOMEM, nullptr);
  return note(__libc_malloc(bytes));
}

EXPORT void* calloc(size_t count, size_t bytes) {
  if (fails("calloc")) return refused<void*>(ENOMEM, nullptr);
  return note(__libc_calloc(count, bytes));
}

EXPORT void* realloc(void* at, size_t bytes) {
  if (fails("realloc")) return refused<void*>(ENOMEM, nullptr);
  forget(at);
  return note(__libc_realloc(at, bytes));
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  if (fails("aligned_alloc")) return refused<void*>(ENOMEM, nullptr);
  return note(__libc_memalign(alignment, bytes));
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (fails("posix_memalign")) return ENOMEM;
  *out = note(__libc_memalign(alignment, bytes));
  return *out == nullptr ? ENOMEM : 0;
}

EXPORT void free(void* at) {
  if (at != nullptr) forget(at);
  __libc_free(at);
}

EXPORT ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return fails("sendmsg") ? refused(ENOBUFS, ssize_t(-1)) : real_sendmsg(socket, message, flags);
}

EXPORT ssize_t recvmsg(int socket, msghdr* message, int flags) {
  return fails("recvmsg") ? refused(ENOMEM, ssize_t(-1)) : real_recvmsg(socket, message, flags);
}

EXPORT int socket(int domain, int type, int protocol) noexcept {
  return fails("socket") ? refused(EMFILE, -1) : real_socket(domain, type, protocol);
}

EXPORT int socketpair(int domain, int type, int protocol, int* out) noexcept {
  return fails("socketpair") ? refused(EMFILE, -1) : real_socketpair(domain, type, protocol, out);
}

EXPORT int connect(int socket, const sockaddr* address, socklen_t bytes) {
  return fails("connect") ? refused(EAGAIN, -1) : real_connect(socket, address, bytes);
}

EXPORT void* mmap(void* at, size_t bytes, int access, int flags, int fd, off_t offset) noexcept {
  return fails("mmap") ? refused(ENOMEM, MAP_FAILED) : real_mmap(at, bytes, access, flags, fd, offset);
}

EXPORT int memfd_create(const char* name, unsigned flags) noexcept {
  return fails("memfd_create") ? refused(EMFILE, -1) : real_memfd_create(name, flags);
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return fails("posix_fallocate") ? ENOSPC : real_posix_fallocate(fd, offset, bytes);
}

EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return fails("fcntl") ? refused(EMFILE, -1) : real_fcntl(fd, command, argument);
}

EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  return fails("poll") ? refused(ENOMEM, -1) : real_poll(fds, count, timeout);
}

EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  return fails("write") ? refused(EINTR, ssize_t(-1)) : real_write(fd, data, bytes);
}

EXPORT int posix_spawn(pid_t* out, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const* argv, char* const* environment) {
  return fails("posix_spawn") ? EAGAIN : real_posix_spawn(out, path, actions, attributes, argv, environment);
}

EXPORT long syscall(long number, ...) noexcept { // futexes, which is waiting for a fence
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (fails("syscall")) return refused(EINTR, -1L);
  return real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
