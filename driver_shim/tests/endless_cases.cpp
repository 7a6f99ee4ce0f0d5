/* Launches that would not end by themselves: who may end them, how soon, and who goes on. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "under_way.h"

using namespace emu::test;

namespace {

using Clock = std::chrono::steady_clock;

/* Far beyond every test's patience, and within the tick budget of `Served(kPatient)`. */
constexpr int64_t kForever = INT64_MAX;
const std::vector<std::string> kPatient{"--tick-budget", "18446744073709551615"};

/* A launch that does not end by itself is what the engine works on. */
void run_forever(const Setup& setup) { UnderWay(setup).launch(kForever); }

emu_telemetry telemetry() {
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  const emu_telemetry now = emu::test::telemetry(device);
  api->device_close(device);
  return now;
}

/* Another client's launch is served at once. */
void others_are_served() {
  const auto start = Clock::now();
  Setup setup;
  emu_program* empty = setup.program(kEmpty);
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, 5'000'000'000));
  CHECK(Clock::now() - start < std::chrono::seconds(5));
}

}  // namespace

CASE(endless_launch_times_out) {
  std::vector<std::string> options = kPatient;
  options.insert(options.end(), {"--launch-seconds", "1"});
  const Served device(options);
  Setup setup;
  const auto start = Clock::now();
  emu_program* count = setup.program(kCount);
  OK(api->queue_launch(setup.queue, count, kOneBlock, &kForever, sizeof kForever, 0, nullptr));
  REFUSED(EMU_ERROR_LAUNCH_TIMEOUT, api->queue_synchronize(setup.queue, 1, 20'000'000'000));
  const auto took = Clock::now() - start;
  CHECK(took > std::chrono::milliseconds(900) && took < std::chrono::seconds(10));
  const emu_error error = last_error();
  CHECK(error.scope == EMU_SCOPE_QUEUE && error.command == 1 && std::string(error.program) == "count");
  SAYS(error.cause, "1 seconds");
  others_are_served();
}

CASE(endless_launch_ends_with_its_client) {
  const Served device(kPatient);
  Client client([] {
    Setup setup;
    run_forever(setup);
    kill(getpid(), SIGKILL);
  });
  CHECK(WIFSIGNALED(client.wait()));
  others_are_served();
}

CASE(endless_launch_ends_with_a_client_that_waits_for_it) {
  // The session's thread is in a free that waits for the launch: somebody else has to see the client go.
  const Served device(kPatient);
  Client client([] {
    Setup setup;
    const uint64_t address = setup.alloc(65536);
    run_forever(setup);
    std::printf("%d\n", getpid());
    std::fflush(stdout);
    (void)api->memory_free(setup.context, address);
  });
  CHECK(std::stoi(client.line()) == client.pid());
  usleep(100'000);
  kill(client.pid(), SIGKILL);
  CHECK(WIFSIGNALED(client.wait()));
  others_are_served();
}

CASE(endless_launch_ends_with_its_context) {
  const Served device(kPatient);
  const auto start = Clock::now();
  {
    Setup setup;
    run_forever(setup);
  }
  CHECK(Clock::now() - start < std::chrono::seconds(5));
  others_are_served();
}

/* What was done is on the device's clock and in its counters, though nobody waits for it any more. */
CASE(endless_launch_is_charged) {
  const Served device(kPatient);
  const emu_telemetry before = telemetry();
  uint64_t copies = 0;
  {
    Setup setup;
    UnderWay under_way(setup);
    under_way.launch(kForever);
    usleep(20'000);
    copies = under_way.copies();
  }
  const emu_telemetry after = telemetry();
  CHECK(after.busy_ticks - before.busy_ticks > 100'000); // each loop takes some, and it ran for milliseconds
  CHECK(after.device_ticks - before.device_ticks == after.busy_ticks - before.busy_ticks);
  CHECK(after.launches - before.launches == 1);
  CHECK(after.commands - before.commands == copies); // the launch is not completed
}

CASE(endless_copy_is_charged) {
  constexpr uint64_t kBytes = 512 << 20;
  const Served device({"--threads", "1"});
  /* Copy ticks of a fill whose context ends after `wait`, or when the fill does. */
  const auto ticks_of = [](std::optional<Clock::duration> wait) {
    const uint64_t before = telemetry().copy_ticks;
    {
      Setup setup;
      uint64_t sequence = 0;
      OK(api->queue_fill(setup.copies, setup.alloc(kBytes), 1, kBytes, 0, &sequence));
      if (wait) std::this_thread::sleep_for(*wait);
      else OK(api->queue_synchronize(setup.copies, sequence, UINT64_MAX));
    }
    return telemetry().copy_ticks - before;
  };
  const auto start = Clock::now();
  const uint64_t whole = ticks_of(std::nullopt);
  const auto took = Clock::now() - start;
  uint64_t part = 0;
  for (int i = 0; i < 20 && (part == 0 || part == whole); ++i) part = ticks_of(took * i / 20);
  CHECK(part > 0 && part < whole);
}

CASE(endless_launch_ends_with_emud) {
  static auto* const setups = new std::list<Setup>; // never ended in order: the device is gone
  CHECK(is_within(std::chrono::seconds(1), [&] {
    Served device(kPatient);
    const Setup& setup = setups->emplace_back();
    run_forever(setup);
    const auto start = Clock::now();
    CHECK(device.end(SIGTERM) == 0);
    const auto took = Clock::now() - start;
    REFUSED(EMU_ERROR_DEVICE_LOST, api->queue_synchronize(setup.queue, 2, UINT64_MAX));
    return took;
  }));
}
