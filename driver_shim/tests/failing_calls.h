/* How a case makes calls fail that libemudrv makes: failing_calls.so, preloaded, stands before the C library. */
#ifndef EMU_TEST_FAILING_CALLS_H
#define EMU_TEST_FAILING_CALLS_H

#include <cstdint>

namespace emu::test {

/* One thread at a time may set `armed`; calls count while it is. */
struct FailingCalls {
  bool armed;
  uint64_t fail_at;   // from 1
  uint64_t count;     // of calls since the case set it to 0
  const char* failed; // name of the one that failed
  int64_t live;       // allocations made while armed and not freed
};
constexpr const char* kFailingCalls = "emu_test_failing_calls";

} // namespace emu::test

#endif
