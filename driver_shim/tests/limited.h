/* A limit (setrlimit) of another process for the length of a scope. */
#ifndef EMU_TEST_LIMITED_H
#define EMU_TEST_LIMITED_H

#include <sys/resource.h>

#include "harness.h"

namespace emu::test {

class Limited {
 public:
  Limited(int pid, __rlimit_resource what, uint64_t most) : pid_(pid), what_(what) {
    CHECK(prlimit(pid_, what_, nullptr, &before_) == 0);
    const rlimit now{most, before_.rlim_max};
    CHECK(prlimit(pid_, what_, &now, nullptr) == 0);
  }
  ~Limited() { prlimit(pid_, what_, &before_, nullptr); }

 private:
  const int pid_;
  const __rlimit_resource what_;
  rlimit before_{};
};

} // namespace emu::test

#endif
