#include <atomic>
#include <chrono>
#include <thread>

#include "harness.h"

using namespace emu::test;

CASE(queue_order_and_timeline) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_program* store = setup.program(kStore);
  uint64_t sequence = 0;
  struct { uint64_t address; int32_t value; int32_t unused; } arguments{address, 0, 0};
  for (int32_t i = 1; i <= 1000; ++i) {
    arguments.value = i;
    OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, &sequence));
    CHECK(sequence == uint64_t(i));
  }
  OK(api->queue_synchronize(setup.queue, 1000, UINT64_MAX));
  uint64_t completed = 0;
  OK(api->queue_completed(setup.queue, &completed));
  CHECK(completed == 1000);
  auto* host = setup.pinned<int32_t>(1);
  setup.from_device(host, address, 4);
  CHECK(*host == 1000);
}

CASE(queue_wait_across) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  auto* host = setup.pinned<int32_t>(64);
  emu_program* store = setup.program(kStore);
  emu_queue* other = setup.make_queue(EMU_QUEUE_COMPUTE, 5);
  uint64_t copied = 0, stored = 0, gone = 0;
  for (int32_t round = 1; round <= 200; ++round) {
    // compute -> copy -> compute of another queue -> compute
    struct { uint64_t address; int32_t value; int32_t unused; } arguments{address, round, 0};
    OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, &stored));
    OK(api->queue_wait(setup.copies, setup.queue, stored, nullptr));
    OK(api->queue_copy_from_device(setup.copies, host + round % 64, address, 4, 0, &copied));
    OK(api->queue_wait(other, setup.copies, copied, nullptr));
    OK(api->queue_fill(other, address, 0, 4, 0, &gone));
    OK(api->queue_wait(setup.queue, other, gone, nullptr));
    if (round % 50 == 0) {
      OK(api->queue_synchronize(setup.copies, copied, UINT64_MAX));
      CHECK(host[round % 64] == round);
    }
  }
  OK(api->queue_synchronize(other, gone, UINT64_MAX));
  OK(api->queue_destroy(other));
  // What a queue reached before it was destroyed can still be waited for; its handle is stale.
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_wait(setup.queue, other, 1, nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_wait(setup.queue, setup.queue, 1, nullptr));
}

CASE(queue_wait_wakes_the_other_engine) {
  // The copy engine has gone to sleep over a queue that waits when the compute engine gets there.
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  for (uint64_t round = 1; round <= 5; ++round) {
    OK(api->queue_wait(setup.copies, setup.queue, round, nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
    OK(api->queue_synchronize(setup.copies, round, 20'000'000'000));
  }
}

CASE(queue_wait_before_submission) {
  // A queue that waits does not hold up its engine: the other queue of the same kind goes on.
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* other = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->queue_wait(setup.queue, other, 3, nullptr));
  OK(api->queue_fill(setup.queue, address, 9, 1, 0, nullptr));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, 2, 20'000'000));
  uint64_t completed = 9;
  OK(api->queue_completed(setup.queue, &completed));
  CHECK(completed == 0);
  for (int i = 0; i < 3; ++i) OK(api->queue_fill(other, address, 1, 1, 0, nullptr));
  OK(api->queue_synchronize(setup.queue, 2, UINT64_MAX));
}

CASE(queue_timeout) {
  Setup setup;
  emu_program* count = setup.program(kCount);
  const int64_t forever = INT64_MAX;
  uint64_t sequence = 0, first = 0;
  OK(api->queue_launch(setup.queue, count, kOneBlock, &forever, sizeof forever, 0, &sequence));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, sequence, 0));
  const auto start = std::chrono::steady_clock::now();
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, sequence, 2'000'000));
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(2));
  OK(api->queue_cancel(setup.queue, sequence, EMU_CANCEL_RUNNING, &first)); // it went on
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  OK(api->queue_synchronize(setup.queue, sequence, 0));
}

CASE(queue_ring_full) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* other = setup.make_queue(EMU_QUEUE_COMPUTE);
  constexpr uint64_t kMany = 40000; // of 64 bytes in a ring of 1 MiB
  std::atomic<uint64_t> submitted{0};
  OK(api->queue_wait(setup.queue, other, 1, nullptr));
  std::thread producer([&] {
    for (uint64_t i = 0; i < kMany; ++i) {
      OK(api->queue_fill(setup.queue, address, uint8_t(i), 1, 0, nullptr));
      ++submitted;
    }
  });
  uint64_t before = 0;
  do {
    before = submitted;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } while (submitted != before || before == 0);
  CHECK(before < kMany); // it blocks, and loses nothing
  OK(api->queue_fill(other, address, 0, 1, 0, nullptr));
  producer.join();
  OK(api->queue_synchronize(setup.queue, kMany + 1, UINT64_MAX));
  uint64_t completed = 0;
  OK(api->queue_completed(setup.queue, &completed));
  CHECK(completed == kMany + 1);
}

CASE(queue_large_arguments) {
  // Arguments of the largest size, so that commands lie across the end of the ring.
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_program* last = setup.program(
      ".program last\n.lanes 64\n.args 4096\n arg.i64 s0, 0\n arg.i32 s1, 4092\n sstore.i32 s1, s0\n exit\n");
  uint8_t arguments[4096] = {};
  std::memcpy(arguments, &address, sizeof address);
  auto* host = setup.pinned<int32_t>(1);
  for (int32_t i = 1; i <= 600; ++i) {
    std::memcpy(arguments + 4092, &i, sizeof i);
    OK(api->queue_launch(setup.queue, last, kOneBlock, arguments, sizeof arguments, 0, nullptr));
    if (i % 100 == 0) {
      setup.from_device(host, address, 4);
      CHECK(*host == i);
    }
  }
  uint64_t sequence = 0;
  REFUSED(EMU_ERROR_INVALID_ARGUMENT,
          api->queue_launch(setup.queue, last, kOneBlock, arguments, 4095, 0, &sequence));
}
