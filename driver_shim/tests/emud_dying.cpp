/* An emud that is killed at the N-th change of a file that outlives it, N being in $EMU_DIE_AT: before it, or for a
 * write half-way. The linker puts these in the place of the calls. */
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>

namespace {

bool this_one() {
  static long left = [] {
    const char* const given = std::getenv("EMU_DIE_AT");
    return given == nullptr ? 0 : std::atol(given);
  }();
  return --left == 0;
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

} // namespace

extern "C" {

ssize_t __real_pwrite(int fd, const void* data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  if (!this_one()) return __real_pwrite(fd, data, bytes, offset);
  (void)!__real_pwrite(fd, data, bytes / 2, offset);
  die();
}

int __real_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes) {
  if (this_one()) die();
  return __real_ftruncate(fd, bytes);
}

int __real_renameat(int from, const char* old_name, int to, const char* new_name);
int __wrap_renameat(int from, const char* old_name, int to, const char* new_name) {
  if (this_one()) die();
  return __real_renameat(from, old_name, to, new_name);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd) {
  if (this_one()) die();
  return __real_fsync(fd);
}

} // extern "C"
