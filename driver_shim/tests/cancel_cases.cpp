/* Cases about commands that are taken back. */
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "under_way.h"

using namespace emu::test;

namespace {

constexpr uint64_t kSoon = 20'000'000'000; // a test that hangs fails

/* Of the queue's commands. */
std::vector<emu_activity> records(emu_context* context, emu_queue* queue) {
  std::vector<emu_activity> out;
  for (size_t count = 1; count > 0;) {
    emu_activity record{};
    uint64_t dropped = 0;
    OK(api->activity_read(context, &record, 1, &count, &dropped));
    CHECK(dropped == 0);
    if (count > 0 && record.queue == api->queue_id(queue)) out.push_back(record);
  }
  return out;
}

uint64_t cancel(emu_queue* queue, uint64_t from, uint32_t flags = 0) {
  uint64_t first = 0;
  OK(api->queue_cancel(queue, from, flags, &first));
  return first;
}

uint8_t byte_at(const Setup& setup, uint64_t address) {
  auto* host = setup.pinned(1);
  uint64_t sequence = 0;
  OK(api->queue_copy_from_device(setup.copies, host, address, 1, 0, &sequence));
  OK(api->queue_synchronize(setup.copies, sequence, kSoon));
  const uint8_t value = *host;
  OK(api->host_free(setup.context, host));
  return value;
}

} // namespace

/* A wait that nobody will end, and what is behind it; what is in front and what comes later runs. */
CASE(cancel_from) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->activity_enable(setup.context, 1));
  OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
  OK(api->queue_synchronize(setup.queue, 1, kSoon));
  OK(api->queue_wait(setup.queue, never, 1, nullptr));                   // 2
  OK(api->queue_fill(setup.queue, address, 2, 1, 0, nullptr));           // 3
  OK(api->queue_fill(setup.queue, address + 1, 3, 1, 77, nullptr));      // 4
  std::this_thread::sleep_for(std::chrono::milliseconds(20));            // the engine is asleep over the wait
  CHECK(cancel(setup.queue, 4) == 4);
  CHECK(cancel(setup.queue, 5) == 5); // nothing
  OK(api->queue_fill(setup.queue, address + 2, 4, 1, 0, nullptr));       // 5
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, 2, 20'000'000));
  OK(api->queue_fill(never, address + 3, 0, 1, 0, nullptr));
  OK(api->queue_synchronize(setup.queue, 5, kSoon));
  CHECK(byte_at(setup, address) == 2 && byte_at(setup, address + 1) == 0 && byte_at(setup, address + 2) == 4);
  int passed_over = 0;
  for (const emu_activity& record : records(setup.context, setup.queue)) {
    CHECK(record.status == (record.command == 4 ? EMU_ERROR_CANCELLED : EMU_OK));
    if (record.command != 4) continue;
    CHECK(record.kind == EMU_ACTIVITY_FILL && record.correlation == 77 && record.start_ticks == record.end_ticks);
    ++passed_over;
  }
  CHECK(passed_over == 1);
}

/* Who waits for the timeline goes on: another queue, and the host. */
CASE(cancel_a_wait) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->queue_wait(setup.queue, never, 1, nullptr));
  OK(api->queue_wait(setup.copies, setup.queue, 1, nullptr));
  OK(api->queue_fill(setup.copies, address, 9, 1, 0, nullptr));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.copies, 2, 20'000'000));
  std::thread waiter([&] { OK(api->queue_synchronize(setup.copies, 2, kSoon)); });
  CHECK(cancel(setup.queue, 1) == 1);
  waiter.join();
  CHECK(byte_at(setup, address) == 9);
}

CASE(cancel_what_runs) {
  Setup setup;
  OK(api->activity_enable(setup.context, 1));
  const uint64_t address = setup.alloc(65536);
  UnderWay under_way(setup);
  uint64_t sequence = 0;
  for (int round = 0; round < 20; ++round) {
    OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
    sequence = under_way.launch(INT64_MAX);
    OK(api->queue_fill(setup.queue, address, 2, 1, 0, nullptr));
    CHECK(cancel(setup.queue, 1) == sequence + 1); // the launch is under way, and goes on
    REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, sequence, 10'000'000));
    CHECK(cancel(setup.queue, sequence + 1, EMU_CANCEL_RUNNING) == sequence + 1); // it is not among them
    REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, sequence, 10'000'000));
    CHECK(cancel(setup.queue, sequence, EMU_CANCEL_RUNNING) == sequence + 1);
    OK(api->queue_synchronize(setup.queue, sequence + 1, kSoon));
    const auto all = records(setup.context, setup.queue);
    CHECK(all.size() == 3 && all[0].status == EMU_OK && all[1].status == EMU_ERROR_CANCELLED);
    CHECK(all[1].kind == EMU_ACTIVITY_LAUNCH && std::string(all[1].program) == "mark");
    CHECK(all[2].status == EMU_ERROR_CANCELLED && all[2].start_ticks == all[2].end_ticks);
  }
  // The context is as good as before, and an end that was meant for one command ends no other.
  OK(api->queue_synchronize(setup.queue, under_way.launch(1000), kSoon));
  const auto last = records(setup.context, setup.queue);
  CHECK(last.size() == 1 && last[0].status == EMU_OK);
}

/* A copy onto itself is one that ends too, in tens of milliseconds and not of seconds. */
CASE(cancel_a_copy_onto_itself) {
  if (kThreadSanitizer) skip("it looks at what is being moved");
  Setup setup;
  OK(api->activity_enable(setup.context, 1));
  constexpr uint64_t bytes = uint64_t(3) << 30, step = 65536;
  const uint64_t address = setup.alloc(bytes + step);
  auto* seen = setup.pinned(1);
  /* It begins at the end that it moves towards: has it when the byte there is another. */
  const auto is_cancelled = [&](bool up) {
    const uint64_t to = address + (up ? step : 0), from = address + (up ? 0 : step), first = up ? bytes - 1 : 0;
    uint64_t sequence = 0, look = 0;
    OK(api->queue_fill(setup.copies, to + first, 0, 1, 0, nullptr));
    OK(api->queue_fill(setup.copies, from + first, 1, 1, 0, &sequence));
    OK(api->queue_synchronize(setup.copies, sequence, kSoon));
    (void)records(setup.context, setup.copies);
    OK(api->queue_copy_on_device(setup.copies, to, from, bytes, 0, &sequence));
    for (*seen = 0; *seen == 0;) {
      OK(api->queue_copy_from_device(setup.queue, seen, to + first, 1, 0, &look));
      OK(api->queue_synchronize(setup.queue, look, kSoon));
    }
    cancel(setup.copies, sequence, EMU_CANCEL_RUNNING);
    OK(api->queue_synchronize(setup.copies, sequence, kSoon));
    const auto all = records(setup.context, setup.copies);
    CHECK(all.size() == 1 && all[0].end_ticks > all[0].start_ticks);
    return all[0].status == EMU_ERROR_CANCELLED;
  };
  for (const bool up : {true, false}) {
    bool cancelled = false; // else it was done before the host had a turn for this process again
    for (int i = 0; i < 5 && !cancelled; ++i) cancelled = is_cancelled(up);
    CHECK(cancelled);
  }
}

/* What overlaps is moved whole, whichever way, also across the pieces that it is cut into. */
CASE(copy_onto_itself) {
  Setup setup;
  constexpr uint64_t bytes = (uint64_t(64) << 20) + 3 * 65536, step = 65536;
  const uint64_t address = setup.alloc(bytes + step);
  for (const bool up : {true, false}) {
    uint64_t sequence = 0;
    const uint64_t from = address + (up ? 0 : step), to = address + (up ? step : 0);
    for (uint64_t page = 0; page * step < bytes; ++page) {
      OK(api->queue_fill(setup.copies, from + page * step, uint8_t(page % 251 + 1), step, 0, nullptr));
    }
    OK(api->queue_copy_on_device(setup.copies, to, from, bytes, 0, &sequence));
    OK(api->queue_synchronize(setup.copies, sequence, kSoon));
    for (uint64_t page = 0; page * step < bytes; ++page) {
      CHECK(byte_at(setup, to + page * step) == uint8_t(page % 251 + 1));
    }
  }
}

/* Who waits for room in the ring gets it from a cancellation. */
CASE(cancel_makes_room) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->queue_wait(setup.queue, never, 1, nullptr));
  std::atomic<uint64_t> submitted{1};
  std::thread producer([&] {
    for (int i = 0; i < 20000; ++i, ++submitted) OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
  });
  for (uint64_t before = 0; before != submitted || before < 16000;) {
    before = submitted;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(submitted < 20001);
  CHECK(cancel(setup.queue, 1) == 1);
  producer.join();
  OK(api->queue_synchronize(setup.queue, 20001, kSoon));
}

CASE(cancel_is_bounded) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->queue_wait(setup.queue, never, 1, nullptr));
  uint64_t sequence = 0, first = 0;
  for (int i = 0; i < 16; ++i) { // every other command, each a range of its own
    OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
    OK(api->queue_fill(setup.queue, address, 1, 1, 0, &sequence));
    CHECK(cancel(setup.queue, sequence) == sequence);
    CHECK(cancel(setup.queue, sequence) == sequence); // the same again is no range more
  }
  OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
  OK(api->queue_fill(setup.queue, address, 7, 1, 0, &sequence));
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->queue_cancel(setup.queue, sequence, 0, &first));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_cancel(setup.queue, 1, 2, &first));
  CHECK(cancel(setup.queue, sequence - 2) == sequence - 2); // one that meets another is
  CHECK(cancel(setup.queue, 1) == 1);                        // all of them in one
  OK(api->queue_synchronize(setup.queue, sequence, kSoon));
  CHECK(byte_at(setup, address) == 0);
}
