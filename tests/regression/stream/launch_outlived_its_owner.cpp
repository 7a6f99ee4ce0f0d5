/* A process was killed, and its launch kept the device for minutes: everyone else waited for a program that nobody
 * wanted. */
#include <signal.h>
#include <unistd.h>

#include "harness.h"

using namespace emu::test;

CASE(launch_outlived_its_owner) {
  const Served served({"--tick-budget", "18446744073709551615"});
  Client owner([] {
    Setup setup;
    const int64_t forever = INT64_MAX;
    OK(api->queue_launch(setup.queue, setup.program(kCount), kOneBlock, &forever, sizeof forever, 0, nullptr));
    std::printf("launched\n");
    std::fflush(stdout);
    pause();
  });
  CHECK(owner.line() == "launched");
  usleep(100'000); // the device has taken it up
  kill(owner.pid(), SIGKILL);
  owner.wait();
  Setup setup;
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, setup.program(kEmpty), kOneBlock, nullptr, 0, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, 10'000'000'000));
}
