#include <vector>

#include "harness.h"

using namespace emu::test;

CASE(copy_round_trip) {
  Setup setup;
  // Around a page, around the size from which copies are spread over threads, and odd ones.
  for (const uint64_t bytes : {uint64_t(1), uint64_t(4095), uint64_t(65537), (uint64_t(2) << 20) - 1,
                               (uint64_t(9) << 20) + 13}) {
    const uint64_t address = setup.alloc(bytes);
    auto* host = setup.pinned(bytes);
    std::vector<uint8_t> expected(bytes);
    for (uint64_t i = 0; i < bytes; ++i) expected[i] = uint8_t(i * 167 + i / 4096 * 13);
    std::memcpy(host, expected.data(), bytes);
    setup.to_device(address, host, bytes);
    std::memset(host, 0, bytes);
    setup.from_device(host, address, bytes);
    CHECK(std::memcmp(host, expected.data(), bytes) == 0);
    OK(api->memory_free(setup.context, address));
    OK(api->host_free(setup.context, host));
  }
}

CASE(copy_on_device_and_fill) {
  Setup setup;
  constexpr uint64_t kBytes = 3 << 20;
  const uint64_t address = setup.alloc(kBytes);
  auto* host = setup.pinned(kBytes);
  std::vector<uint8_t> expected(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) expected[i] = host[i] = uint8_t(i * 31 + (i >> 9));
  setup.to_device(address, host, kBytes);
  uint64_t sequence = 0;
  // Overlapping, both ways; then a fill inside.
  OK(api->queue_copy_on_device(setup.queue, address + 1000, address, 2 << 20, 0, nullptr));
  OK(api->queue_copy_on_device(setup.queue, address, address + 77, 1 << 20, 0, nullptr));
  OK(api->queue_fill(setup.queue, address + 5, 0xee, 4097, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  std::memmove(expected.data() + 1000, expected.data(), 2 << 20);
  std::memmove(expected.data(), expected.data() + 77, 1 << 20);
  std::memset(expected.data() + 5, 0xee, 4097);
  setup.from_device(host, address, kBytes);
  CHECK(std::memcmp(host, expected.data(), kBytes) == 0);
}

CASE(copy_needs_pinned_memory) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  std::vector<uint8_t> pageable(65536);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_copy_to_device(setup.queue, address, pageable.data(), 1, 0, nullptr));
  auto* host = setup.pinned(4096);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_copy_to_device(setup.queue, address, host + 1, 4096, 0, nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_copy_from_device(setup.queue, host - 1, address, 1, 0, nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_timestamp(setup.queue, host + 4, 0, nullptr));
  OK(api->host_free(setup.context, host));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->host_free(setup.context, host));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_copy_to_device(setup.queue, address, host, 1, 0, nullptr));
}

CASE(timestamps_and_telemetry) {
  Setup setup;
  const emu_telemetry before = telemetry(setup.device);
  auto* stamps = setup.pinned<emu_timestamp>(2);
  const uint64_t address = setup.alloc(1 << 20);
  emu_program* empty = setup.program(kEmpty);
  uint64_t sequence = 0;
  OK(api->queue_timestamp(setup.queue, &stamps[0], 0, nullptr));
  OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, nullptr));
  OK(api->queue_fill(setup.queue, address, 1, 1 << 20, 0, nullptr));
  OK(api->queue_timestamp(setup.queue, &stamps[1], 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  // An empty launch and a fill of 1 MiB, by the numbers of machine.toml: no host time is in it.
  const uint64_t ticks = stamps[1].ticks - stamps[0].ticks;
  const uint64_t fill = 1000 + (1 << 20) / 32;
  CHECK(ticks >= fill + 2000 && ticks < fill + 2100);
  CHECK(stamps[1].nanoseconds > stamps[0].nanoseconds);
  const emu_telemetry after = telemetry(setup.device);
  CHECK(after.commands == before.commands + 4);
  CHECK(after.launches == before.launches + 1);
  CHECK(after.device_ticks == before.device_ticks + ticks);
  CHECK(after.busy_ticks == before.busy_ticks + ticks);
  CHECK(after.copy_ticks == before.copy_ticks + fill);
  CHECK(after.memory_used_bytes == before.memory_used_bytes + (1 << 20));
  CHECK(after.contexts == before.contexts && after.queues == before.queues && after.queues >= 2);
  CHECK(after.power_watts >= 20 && after.power_watts <= 120 && after.temperature_celsius > 30);
}

CASE(activity_records) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_program* empty = setup.program(kEmpty);
  uint64_t sequence = 0;
  OK(api->queue_fill(setup.queue, address, 1, 100, 1, &sequence)); // not recorded: off until enabled
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  OK(api->activity_enable(setup.context, 1));
  const uint32_t grid[3] = {3, 2, 1};
  OK(api->queue_launch(setup.queue, empty, grid, nullptr, 0, 41, nullptr));
  OK(api->queue_fill(setup.queue, address, 1, 1000, 42, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  emu_activity records[4] = {};
  size_t count = 0;
  uint64_t dropped = 1;
  OK(api->activity_read(setup.context, records, 4, &count, &dropped));
  CHECK(count == 2 && dropped == 0);
  CHECK(records[0].kind == EMU_ACTIVITY_LAUNCH && records[0].correlation == 41 && records[0].command == 2);
  CHECK(std::string(records[0].program) == "empty" && records[0].grid[0] == 3 && records[0].grid[1] == 2);
  CHECK(records[1].kind == EMU_ACTIVITY_FILL && records[1].correlation == 42 && records[1].bytes == 1000);
  CHECK(records[1].queue == api->queue_id(setup.queue));
  CHECK(records[0].end_ticks > records[0].start_ticks && records[1].start_ticks >= records[0].end_ticks);
  CHECK(records[0].end_ns >= records[0].start_ns);

  // The buffer is bounded, and says how much it lost.
  constexpr size_t kMany = 70000;
  for (size_t i = 0; i < kMany; ++i) OK(api->queue_fill(setup.queue, address, 1, 1, i, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  std::vector<emu_activity> many(kMany);
  OK(api->activity_read(setup.context, many.data(), many.size(), &count, &dropped));
  CHECK(count > 0 && dropped > 0 && count + dropped == kMany);
  CHECK(many[count - 1].correlation == count - 1);
  OK(api->activity_enable(setup.context, 0));
}
