#include <atomic>
#include <thread>
#include <vector>

#include "harness.h"

using namespace emu::test;

CASE(threads_launch) {
  // Two threads, 20,000 launches each, on one queue; every launch is counted once.
  Setup setup;
  emu_program* empty = setup.program(kEmpty);
  const emu_telemetry before = telemetry(setup.device);
  std::atomic<uint64_t> highest{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      uint64_t last = 0;
      for (int i = 0; i < 20000; ++i) {
        uint64_t sequence = 0;
        OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, &sequence));
        CHECK(sequence > last);
        last = sequence;
        if (i % 500 == 0) OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
      }
      uint64_t seen = highest;
      while (seen < last && !highest.compare_exchange_weak(seen, last)) {}
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(highest == 40000);
  OK(api->queue_synchronize(setup.queue, 40000, UINT64_MAX));
  const emu_telemetry after = telemetry(setup.device);
  CHECK(after.launches == before.launches + 40000);
}

CASE(threads_everything) {
  // Each thread with a context of its own, making and giving back all the time.
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 8; ++round) {
        Setup setup;
        const uint64_t bytes = uint64_t(65536) * uint64_t(1 + round);
        const uint64_t address = setup.alloc(bytes);
        auto* host = setup.pinned(bytes);
        emu_program* store = setup.program(kStore);
        struct { uint64_t address; int32_t value; int32_t unused; } arguments{address, t * 1000 + round, 0};
        uint64_t sequence = 0;
        for (int i = 0; i < 100; ++i) {
          OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, &sequence));
        }
        OK(api->queue_wait(setup.copies, setup.queue, sequence, nullptr));
        OK(api->queue_copy_from_device(setup.copies, host, address, bytes, 0, &sequence));
        OK(api->queue_synchronize(setup.copies, sequence, UINT64_MAX));
        CHECK(*reinterpret_cast<int32_t*>(host) == t * 1000 + round);
        for (uint64_t i = 4; i < bytes; ++i) CHECK(host[i] == 0);
        if (round % 2 == 0) OK(api->queue_destroy(setup.copies));
        if (round % 3 == 0) OK(api->program_unload(store));
        if (round % 4 == 0) OK(api->host_free(setup.context, host));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  api->device_close(device);
}
