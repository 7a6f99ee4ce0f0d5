/* A launch that ended with its context was on no clock and in no counter: by destroying contexts a client could use
 * the device for nothing, and a monitor saw an idle one. */
#include <unistd.h>

#include "harness.h"

using namespace emu::test;

CASE(cut_short_launch_was_free) {
  const Served served({"--tick-budget", "18446744073709551615"});
  Setup watcher;
  emu_telemetry now{};
  now.size = sizeof now;
  {
    Setup setup;
    const int64_t forever = INT64_MAX;
    uint64_t sequence = 0;
    OK(api->queue_launch(setup.queue, setup.program(kCount), kOneBlock, &forever, sizeof forever, 0, &sequence));
    CHECK(api->queue_synchronize(setup.queue, sequence, 200'000'000) == EMU_ERROR_TIMEOUT);
    OK(api->device_telemetry(watcher.device, &now));
    CHECK(now.launches == 0);
  }
  CHECK(eventually([&] {
    OK(api->device_telemetry(watcher.device, &now));
    return now.launches == 1;
  }));
  CHECK(now.busy_ticks > 100'000);
}
