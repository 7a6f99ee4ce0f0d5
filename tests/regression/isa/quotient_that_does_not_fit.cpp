/* The most negative integer by -1, and anything by zero, trap on most hosts: a device that divides as its host does
 * ends for all its users by one program. Here both have a stated result. */
#include "harness.h"

using namespace emu::test;

CASE(quotient_that_does_not_fit) {
  Setup setup;
  const uint64_t words = setup.alloc(32);
  emu_program* divide = setup.program(R"(
.program divide
.lanes 64
.args 8
 arg.i64 s0, 0
 const.i64 s1, -9223372036854775808
 const.i64 s2, -1
 const.i64 s3, 0
 const.i64 s6, 8
 div.i64 s4, s1, s2
 sstore.i64 s4, s0
 add.i64 s0, s0, s6
 rem.i64 s4, s1, s2
 sstore.i64 s4, s0
 add.i64 s0, s0, s6
 div.i64 s4, s1, s3
 sstore.i64 s4, s0
 add.i64 s0, s0, s6
 rem.i64 s4, s1, s3
 sstore.i64 s4, s0
 exit
)");
  OK(api->queue_launch(setup.queue, divide, kOneBlock, &words, sizeof words, 0, nullptr));
  auto* got = setup.pinned<int64_t>(4);
  setup.from_device(got, words, 32);
  CHECK(got[0] == INT64_MIN && got[1] == 0);
  CHECK(got[2] == -1 && got[3] == INT64_MIN);
}
