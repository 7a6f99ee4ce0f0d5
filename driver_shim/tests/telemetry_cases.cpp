#include <sys/stat.h>
#include <unistd.h>

#include <cmath>

#include "under_way.h"

using namespace emu::test;

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kNominal = 0, kEco = 1, kBoost = 2;

/* One product of 16 x 16 tiles; one load and one store of 64 f32. */
const std::string kMixed =
    ".program mixed\n.lanes 64\n.args 8\n arg.i64 s0, 0\n const.i64 s2, 16\n mzero.f32 m0, s2, s2\n"
    " mzero.f32 m1, s2, s2\n mzero.f32 m2, s2, s2\n mma.f32 m0, m1, m2\n load.f32 v0, s0\n add.f32 v1, v0, v0\n"
    " store.f32 v1, s0\n exit\n";

uint64_t copy_ticks(uint64_t bytes) { return 1000 + (bytes + 31) / 32; }

void synchronize(emu_queue* queue, uint64_t sequence) { OK(api->queue_synchronize(queue, sequence, UINT64_MAX)); }

/* Device ticks of what `submit` puts into the compute queue. */
template <typename Submit>
uint64_t ticks_between(const Setup& setup, const Submit& submit) {
  auto* stamps = setup.pinned<emu_timestamp>(2);
  uint64_t sequence = 0;
  OK(api->queue_timestamp(setup.queue, &stamps[0], 0, nullptr));
  submit();
  OK(api->queue_timestamp(setup.queue, &stamps[1], 0, &sequence));
  synchronize(setup.queue, sequence);
  const uint64_t ticks = stamps[1].ticks - stamps[0].ticks;
  OK(api->host_free(setup.context, stamps));
  return ticks;
}

uint64_t ticks_of(const Setup& setup, emu_program* program) {
  return ticks_between(
      setup, [&] { OK(api->queue_launch(setup.queue, program, kOneBlock, nullptr, 0, 0, nullptr)); });
}

} // namespace

CASE(telemetry_adds_up) {
  Setup setup;
  const uint64_t address = setup.alloc(kMiB);
  emu_program* mixed = setup.program(kMixed);
  CHECK(telemetry(setup.device).device_ticks == 0);
  // The compute engine waits for a fill on the other one.
  uint64_t sequence = 0;
  OK(api->queue_fill(setup.copies, address, 0, kMiB, 0, &sequence));
  OK(api->queue_wait(setup.queue, setup.copies, sequence, nullptr));
  OK(api->queue_launch(setup.queue, mixed, kOneBlock, &address, sizeof address, 0, &sequence));
  synchronize(setup.queue, sequence);
  emu_telemetry now = telemetry(setup.device);
  CHECK(now.spent_waiting_ticks == copy_ticks(kMiB) && now.spent_idle_ticks == 0);
  CHECK(now.copy_engine_ticks == copy_ticks(kMiB) && now.spent_copy_ticks == 0);
  CHECK(now.spent_control_ticks == 2000);              // a launch
  CHECK(now.spent_matrix_ticks == 16 + 16 * 16 * 16 / 1024);
  CHECK(now.spent_memory_ticks == 2 * (40 + 64 * 2 / 64));
  CHECK(now.spent_vector_ticks > 0 && now.spent_vector_ticks == now.vector_ticks);
  CHECK(now.program_bytes == 2 * 64 * 4);
  // A copy of its own.
  OK(api->queue_copy_on_device(setup.queue, address, address + kMiB / 2, 1000, 0, &sequence));
  synchronize(setup.queue, sequence);
  now = telemetry(setup.device);
  CHECK(now.spent_copy_ticks == copy_ticks(1000) && now.spent_idle_ticks == 0);
  // And it has nothing to do while the other one works: it is idle until it catches up.
  const uint64_t before = now.device_ticks;
  auto* host = setup.pinned(kMiB);
  OK(api->queue_wait(setup.copies, setup.queue, sequence, nullptr));
  OK(api->queue_copy_to_device(setup.copies, address, host, kMiB, 0, nullptr));
  OK(api->queue_copy_from_device(setup.copies, host, address, kMiB / 2, 0, &sequence));
  synchronize(setup.copies, sequence);
  now = telemetry(setup.device);
  CHECK(now.spent_idle_ticks == copy_ticks(kMiB) + copy_ticks(kMiB / 2));
  CHECK(now.device_ticks == before + now.spent_idle_ticks);
  CHECK(now.bytes_to_device == kMiB && now.to_device_ticks == copy_ticks(kMiB));
  CHECK(now.bytes_from_device == kMiB / 2 && now.from_device_ticks == copy_ticks(kMiB / 2));
  CHECK(now.bytes_on_device == kMiB + 1000 && now.on_device_ticks == copy_ticks(kMiB) + copy_ticks(1000));
}

/* Blocks on all cores: what is spent is of the busiest one, what was worked of all. */
CASE(telemetry_of_many_cores) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_program* mixed = setup.program(kMixed);
  const uint32_t grid[3] = {20, 1, 1}; // on 8 cores: three blocks on each of the first four
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, mixed, grid, &address, sizeof address, 0, &sequence));
  synchronize(setup.queue, sequence);
  const emu_telemetry now = telemetry(setup.device);
  CHECK(now.spent_matrix_ticks == 3 * 20 && now.matrix_ticks == 20 * 20);
  CHECK(now.spent_memory_ticks == 3 * 84 && now.memory_ticks == 20 * 84);
  CHECK(now.program_bytes == 20 * 512);
}

/* Two queues that are let go together: the second one's launch waits for the first one's. */
CASE(telemetry_of_queue_delay) {
  Setup setup;
  emu_program* empty = setup.program(kEmpty);
  const uint64_t launch = ticks_of(setup, empty);
  CHECK(telemetry(setup.device).queue_delay_ticks == 0); // in one queue nothing waits for another's work
  emu_queue* other = setup.make_queue(EMU_QUEUE_COMPUTE);
  const uint64_t address = setup.alloc(kMiB);
  uint64_t first = 0, second = 0;
  OK(api->queue_launch(other, empty, kOneBlock, nullptr, 0, 0, &second));
  synchronize(other, second);
  CHECK(telemetry(setup.device).queue_delay_ticks == 0); // nor for work that was done before it came
  OK(api->queue_wait(setup.queue, setup.copies, 1, nullptr));
  OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, &first));
  OK(api->queue_wait(other, setup.copies, 1, nullptr));
  OK(api->queue_launch(other, empty, kOneBlock, nullptr, 0, 0, &second));
  const emu_telemetry before = telemetry(setup.device);
  usleep(20'000);
  OK(api->queue_fill(setup.copies, address, 0, kMiB, 0, nullptr));
  synchronize(setup.queue, first);
  synchronize(other, second);
  const emu_telemetry after = telemetry(setup.device);
  CHECK(after.queue_delay_ticks == launch && after.queue_delay_most_ticks == launch);
  CHECK(after.queued_commands - before.queued_commands == 3);
  // On the host, both were submitted 20 ms before the fill that they wait for.
  CHECK(after.queue_delay_ns - before.queue_delay_ns >= 2 * 19'900'000);
  CHECK(after.queue_delay_most_ns >= 19'900'000 && after.queue_delay_most_ns < 60'000'000'000);
}

CASE(power_modes) {
  Setup setup;
  emu_program* empty = setup.program(kEmpty);
  const uint64_t nominal = ticks_of(setup, empty);
  const uint64_t clocks[] = {1'000'000'000, 600'000'000, 1'250'000'000};
  const char* names[] = {"nominal", "eco", "boost"};
  for (uint32_t index = 0; index < 3; ++index) {
    emu_power_mode mode{};
    mode.size = sizeof mode;
    OK(api->power_mode_info(setup.device, index, &mode));
    CHECK(mode.size == sizeof mode && mode.index == index && mode.clock_hertz == clocks[index]);
    CHECK(std::string(mode.name) == names[index] && mode.idle_watts > 0 && mode.busy_watts > mode.idle_watts);
  }
  emu_power_mode none{};
  none.size = sizeof none;
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->power_mode_info(setup.device, 3, &none));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->device_set_power_mode(setup.device, 3));
  SAYS(last_error().cause, "expected 0 to 2, got 3");
  OK(api->device_set_power_mode(setup.device, kEco));
  CHECK(ticks_of(setup, empty) == (nominal * 100 + 59) / 60);
  emu_telemetry now = telemetry(setup.device);
  CHECK(now.power_mode == kEco && now.clock_hertz == 0.6e9 && now.clock_changes == 1);
  // Copies keep their clock.
  const uint64_t address = setup.alloc(kMiB);
  CHECK(ticks_between(setup, [&] { OK(api->queue_fill(setup.queue, address, 0, kMiB, 0, nullptr)); }) ==
        copy_ticks(kMiB));
  OK(api->device_set_power_mode(setup.device, kBoost));
  CHECK(ticks_of(setup, empty) == (nominal * 100 + 124) / 125);
  OK(api->device_set_power_mode(setup.device, kNominal));
  CHECK(ticks_of(setup, empty) == nominal);
  now = telemetry(setup.device);
  CHECK(now.power_mode == kNominal && now.clock_changes == 3 && now.throttled_ticks == 0);
}

/* However long the host takes for a launch, and whenever somebody sets another mode meanwhile: its ticks stay. */
CASE(power_mode_is_for_what_starts_later) {
  Setup setup;
  UnderWay under_way(setup);
  int64_t turns = 4'000'000;
  uint64_t launch = 0;
  const auto start = [&] { launch = under_way.launch(turns); };
  bool was_under_way = false;
  const auto change = [&] {
    start();
    OK(api->device_set_power_mode(setup.device, kEco));
    was_under_way = api->queue_synchronize(setup.queue, launch, 0) == EMU_ERROR_TIMEOUT;
  };
  uint64_t nominal = 0;
  while (!was_under_way) { // else it was done before the host had a turn for the change
    turns *= 4;
    OK(api->device_set_power_mode(setup.device, kNominal));
    nominal = ticks_between(setup, start);
    CHECK(ticks_between(setup, change) == nominal);
  }
  CHECK(telemetry(setup.device).power_mode == kEco && ticks_between(setup, start) > nominal);
}

CASE(power_mode_outlives_a_reset) {
  Setup setup;
  OK(api->device_set_power_mode(setup.device, kEco));
  const emu_telemetry before = telemetry(setup.device);
  OK(api->device_reset(setup.device));
  const emu_telemetry after = telemetry(setup.device);
  CHECK(after.power_mode == kEco && after.clock_hertz == 0.6e9 && after.clock_changes == before.clock_changes);
  CHECK(after.device_ticks == before.device_ticks && after.commands == before.commands);
}

CASE(power_mode_at_the_start) {
  const Served device({"--power-mode", "boost"});
  Setup setup;
  const emu_telemetry now = telemetry(setup.device);
  CHECK(now.power_mode == kBoost && now.clock_hertz == 1.25e9 && now.clock_changes == 0);
}

CASE(power_mode_is_the_owner_s) {
  if (geteuid() != 0) skip("it takes root to be two users");
  const Served device;
  CHECK(chmod(node().c_str(), 0666) == 0);
  Client stranger([] {
    emu_device* opened = nullptr;
    OK(api->device_open(0, &opened));
    REFUSED(EMU_ERROR_PERMISSION, api->device_set_power_mode(opened, kEco));
    SAYS(last_error().cause, "set the power mode");
    SAYS(last_error().cause, "expected uid 0, got 65534");
    emu_power_mode mode{};
    mode.size = sizeof mode;
    OK(api->power_mode_info(opened, kEco, &mode));
    CHECK(telemetry(opened).power_mode == kNominal);
  }, 65534);
  CHECK(stranger.wait() == 0);
  Setup setup;
  OK(api->device_set_power_mode(setup.device, kEco));
  CHECK(telemetry(setup.device).power_mode == kEco);
}

CASE(throttled_in_hot_air) {
  const Served device({"--ambient", "90"}); // idle, it is at 97 degrees already
  Setup setup;
  emu_telemetry now = telemetry(setup.device);
  CHECK(now.throttle == EMU_THROTTLE_THERMAL && now.clock_hertz == 0.4e9);
  CHECK(std::abs(now.temperature_celsius - 97) < 1e-9);
  emu_program* empty = setup.program(kEmpty);
  const uint64_t ticks = ticks_of(setup, empty);
  CHECK(ticks >= 2000 * 100 / 40 && ticks < 2100 * 100 / 40);
  now = telemetry(setup.device);
  CHECK(now.throttled_ticks == ticks && now.spent_control_ticks + now.spent_vector_ticks == ticks);
}

CASE(memory_pressure) {
  const Served device({"--memory", std::to_string(64 * kMiB)});
  Setup setup;
  const auto look = [&] { return telemetry(setup.device); };
  CHECK(look().memory_pressure == EMU_MEMORY_PRESSURE_NONE && look().memory_largest_free_bytes == 64 * kMiB);
  const uint64_t first = setup.alloc(16 * kMiB);
  const uint64_t second = setup.alloc(24 * kMiB);
  OK(api->memory_free(setup.context, first));
  CHECK(look().memory_used_bytes == 24 * kMiB && look().memory_peak_bytes == 40 * kMiB);
  CHECK(look().memory_largest_free_bytes == 24 * kMiB); // of 40 free ones: 16 before the second, 24 after it
  const uint64_t third = setup.alloc(31 * kMiB);        // 55 of 64
  CHECK(look().memory_pressure == EMU_MEMORY_PRESSURE_HIGH);
  const uint64_t fourth = setup.alloc(6 * kMiB);        // 61 of 64
  CHECK(look().memory_pressure == EMU_MEMORY_PRESSURE_CRITICAL && look().memory_peak_bytes == 61 * kMiB);
  for (const uint64_t address : {second, third, fourth}) OK(api->memory_free(setup.context, address));
  CHECK(look().memory_pressure == EMU_MEMORY_PRESSURE_NONE && look().memory_peak_bytes == 61 * kMiB);
}
