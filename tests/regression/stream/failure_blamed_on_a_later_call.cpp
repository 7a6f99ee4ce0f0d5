/* A program that went wrong was reported by whatever call came next, with no word of which it was: users of several
 * backends searched in the wrong place. The error names the command and its program, whichever call brings it. */
#include "harness.h"

using namespace emu::test;

CASE(failure_blamed_on_a_later_call) {
  Setup setup;
  emu_program* store = setup.program(kStore);
  emu_program* empty = setup.program(kEmpty);
  const uint64_t nowhere[2] = {0x3fffff0000, 1};
  uint64_t wrong = 0, later = 0;
  OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, nullptr));
  OK(api->queue_launch(setup.queue, store, kOneBlock, nowhere, sizeof nowhere, 0, &wrong));
  const emu_status next = api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, &later);
  if (next != EMU_OK) { // the fault is there already
    REFUSED(EMU_ERROR_CONTEXT_LOST, next);
    CHECK(last_error().command == wrong);
    later = wrong;
  }
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, later, UINT64_MAX));
  const emu_error error = last_error();
  CHECK(error.command == wrong && std::string(error.program) == "store" && error.address == nowhere[0]);
}
