/* After a reset the next context began at the same addresses, so that what was kept from before (a tensor, a captured
 * pointer) read and wrote memory of what came after. No two contexts of a process have an address in common. */
#include "harness.h"

using namespace emu::test;

CASE(address_meant_other_memory) {
  uint64_t old = 0;
  {
    Setup before;
    old = before.alloc(65536);
  }
  Setup after;
  const uint64_t fresh = after.alloc(65536);
  CHECK(fresh != old);
  uint64_t sequence = 0;
  OK(api->queue_fill(after.queue, old, 0x5a, 64, 0, &sequence));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(after.queue, sequence, UINT64_MAX));
  CHECK(last_error().address == old);
}
