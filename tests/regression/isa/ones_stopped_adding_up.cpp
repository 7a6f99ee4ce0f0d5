/* 4,096 ones in bf16 summed to 256 where the sum had the type of its operands: 256 + 1 is 256 there. Products of bf16
 * tiles are summed in f32. */
#include <vector>

#include "harness.h"

using namespace emu::test;

CASE(ones_stopped_adding_up) {
  constexpr uint16_t kOne = 0x3f80;
  Setup setup;
  const uint64_t ones = setup.alloc(256), sum = setup.alloc(4);
  auto* host = setup.pinned<uint16_t>(128);
  for (int i = 0; i < 128; ++i) host[i] = kOne;
  setup.to_device(ones, host, 256);
  emu_program* product = setup.program(R"(
.program ones
.lanes 64
.args 16
 arg.i64 s0, 0
 arg.i64 s1, 8
 const.i64 s2, 1
 const.i64 s3, 128
 const.i64 s4, 256
 const.i64 s5, 2
 const.i64 s6, 32
 mload.bf16 m0, s0, s4, s2, s3
 mload.bf16 m1, s0, s5, s3, s2
 mzero.f32 m2, s2, s2
 loop s7, s6
 mmaw.f32.bf16 m2, m0, m1
 end
 mstore.f32 m2, s1, s4
 exit
)");
  const uint64_t arguments[2] = {ones, sum};
  OK(api->queue_launch(setup.queue, product, kOneBlock, arguments, sizeof arguments, 0, nullptr));
  auto* got = setup.pinned<float>(1);
  setup.from_device(got, sum, 4);
  CHECK(*got == 4096.0F);
}
