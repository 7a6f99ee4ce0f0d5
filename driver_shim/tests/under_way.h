/* Launches that are known to be under way. Waiting a moment for one is not enough: the host may have no turn for it. */
#ifndef EMU_TEST_UNDER_WAY_H
#define EMU_TEST_UNDER_WAY_H

#include <unistd.h>

#include <string>

#include "harness.h"

namespace emu::test {

/* Stores 1 to the i32 at offset 0, then counts to the i64 at offset 8. */
inline const std::string kMark =
    ".program mark\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i64 s1, 8\n const.i32 s2, 1\n sstore.i32 s2, s0\n"
    " loop s3, s1\n end\n exit\n";

class UnderWay {
 public:
  /* `program` begins as kMark does, and has its arguments. */
  explicit UnderWay(const Setup& setup, const std::string& program = kMark)
      : setup_(setup), program_(setup.program(program)), mark_(setup.alloc(65536)), seen_(setup.pinned<uint32_t>(1)) {}

  /* By the setup's queue, as its next command: returns its number when it has begun. */
  uint64_t launch(int64_t turns) {
    const struct {
      uint64_t mark;
      int64_t turns;
    } arguments{mark_, turns};
    uint64_t launched = 0, copy = 0;
    OK(api->queue_fill(setup_.copies, mark_, 0, 4, 0, &copy));
    OK(api->queue_synchronize(setup_.copies, copy, UINT64_MAX));
    OK(api->queue_launch(setup_.queue, program_, kOneBlock, &arguments, sizeof arguments, 0, &launched));
    ++copies_;
    for (*seen_ = 0; *seen_ == 0; ++copies_) {
      OK(api->queue_copy_from_device(setup_.copies, seen_, mark_, 4, 0, &copy));
      OK(api->queue_synchronize(setup_.copies, copy, UINT64_MAX));
      if (*seen_ == 0) usleep(1000);
    }
    return launched;
  }
  uint64_t mark() const { return mark_; }     // where it stores
  uint64_t copies() const { return copies_; } // commands that it gave to the setup's copy queue

 private:
  const Setup& setup_;
  emu_program* const program_;
  const uint64_t mark_;
  uint32_t* const seen_;
  uint64_t copies_ = 0;
};

} // namespace emu::test

#endif
