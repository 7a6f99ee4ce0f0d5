/* A program whose arguments ended in the middle of 16 bytes got zeros for the last of them, on stepping A0 only:
 * results were wrong, and nothing said so. Found with the first silicon; libemudrv works around it since 0.1.0. */
#include "harness.h"

using namespace emu::test;

CASE(last_argument_read_as_zero) {
  const Served device({"--stepping", "A0"});
  Setup setup;
  const uint64_t word = setup.alloc(4);
  struct __attribute__((packed)) {
    uint64_t address, unused;
    uint32_t said;
  } const arguments{word, 0, 0xdecafbad};
  static_assert(sizeof arguments == 20);
  emu_program* last = setup.program(
      ".program last\n.lanes 64\n.args 20\n arg.i64 s0, 0\n arg.i32 s1, 16\n sstore.i32 s1, s0\n exit\n");
  OK(api->queue_launch(setup.queue, last, kOneBlock, &arguments, sizeof arguments, 0, nullptr));
  auto* stored = setup.pinned<uint32_t>(1);
  setup.from_device(stored, word, 4);
  CHECK(*stored == arguments.said);
}
