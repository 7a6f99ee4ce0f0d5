/* Injected faults: each strikes what it says, and is found there; others go on. */
#include "inject.h"

using namespace emu::test;

CASE(inject_page_fault) {
  const Served served;
  const Neighbour neighbour;
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_fault fault = mine(EMU_FAULT_PAGE_FAULT);
  fault.command = EMU_ACTIVITY_FILL;
  fault.skip = 2;
  const uint64_t number = inject(setup, fault);
  launch(setup.queue, empty_of(setup)); // of another kind: not counted
  for (int i = 0; i < 3; ++i) fill(setup.queue, address, 1);
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 4, UINT64_MAX));
  CHECK(last_error().command == 4 && last_error().queue == api->queue_id(setup.queue));
  CHECK(last_error().address == address && last_error().scope == EMU_SCOPE_CONTEXT);
  SAYS(last_error().cause, "injected fault");
  uint64_t completed = 0;
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_completed(setup.queue, &completed));
  CHECK(last_fault(setup).command == 4 && last_fault(setup).process == getpid());
  CHECK(faults(setup).size() == 1 && faults(setup)[0].number == number && faults(setup)[0].struck == 1);
  const Setup again; // a new context of the same process
  works(again, again.queue, again.alloc(65536), 7);
}

CASE(inject_strikes_what_it_says) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* other = setup.make_queue(EMU_QUEUE_COMPUTE);
  emu_fault fault = fault_of(EMU_FAULT_PAGE_FAULT);
  fault.queue = api->queue_id(other);
  inject(setup, fault);
  fault = fault_of(EMU_FAULT_PAGE_FAULT);
  fault.process = getpid() + 1;
  inject(setup, fault);
  works(setup, setup.queue, address, 3);
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(other, fill(other, address, 1), UINT64_MAX));
  CHECK(last_error().queue == api->queue_id(other));
  CHECK(faults(setup).size() == 2 && faults(setup)[0].struck == 1 && faults(setup)[1].struck == 0);
  OK(api->fault_clear(setup.device, faults(setup)[0].number));
  CHECK(faults(setup).size() == 1);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->fault_clear(setup.device, 99));
  SAYS(last_error().cause, "got 99");
  OK(api->fault_clear(setup.device, 0));
  CHECK(faults(setup).empty());
}

CASE(inject_refusals) {
  Setup setup;
  uint64_t number = 0;
  const auto refused = [&](const emu_fault& fault, const char* says) {
    REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->fault_inject(setup.device, &fault, &number));
    SAYS(last_error().cause, says);
    CHECK(number == 0 && faults(setup).empty());
  };
  const auto changed = [](emu_fault_kind kind, const auto& change) {
    emu_fault fault = fault_of(kind);
    change(fault);
    return fault;
  };
  refused(changed(EMU_FAULT_SLOW, [](emu_fault& fault) { fault.kind = 99; }), "got 99");
  refused(changed(EMU_FAULT_SLOW, [](emu_fault& fault) { fault.kind = 0; }), "got 0");
  refused(changed(EMU_FAULT_SLOW, [](emu_fault& fault) { fault.size = 8; }), "size");
  refused(changed(EMU_FAULT_SLOW, [](emu_fault& fault) { fault.factor = 1; }), "expected 2 to 1000, got 1");
  refused(changed(EMU_FAULT_HANG, [](emu_fault& fault) { fault.factor = 2; }), "expected 0, got 2");
  refused(changed(EMU_FAULT_HANG, [](emu_fault& fault) { fault.command = EMU_ACTIVITY_FILL; }), "expected launches");
  refused(changed(EMU_FAULT_PAGE_FAULT, [](emu_fault& fault) { fault.command = 8; }), "got 8");
  refused(changed(EMU_FAULT_PAGE_FAULT, [](emu_fault& fault) { fault.address = 1; }), "expected 0");
  refused(changed(EMU_FAULT_LOST_DOORBELL, [](emu_fault& fault) { fault.command = EMU_ACTIVITY_FILL; }), "no kind");
  refused(changed(EMU_FAULT_BIT_CORRECTED, [](emu_fault& fault) { fault.skip = 1; }), "nothing skipped");
  refused(changed(EMU_FAULT_BIT_CORRECTED, [](emu_fault& fault) { fault.address = 64; }), "got 0x40");
  refused(changed(EMU_FAULT_BIT_UNCORRECTED, [](emu_fault& fault) { fault.address = UINT64_MAX; }), "holds");
  for (int i = 0; i < 64; ++i) inject(setup, mine(EMU_FAULT_THERMAL_TRIP)); // before anything runs
  const emu_fault more = fault_of(EMU_FAULT_SLOW);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->fault_inject(setup.device, &more, &number));
  const emu_fault trip = fault_of(EMU_FAULT_THERMAL_TRIP);
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->fault_inject(setup.device, &trip, &number));
}

CASE(inject_is_for_the_owner) {
  const Served served({"--group", "nogroup"});
  const Client other([] {
    Setup setup;
    const emu_fault fault = fault_of(EMU_FAULT_PAGE_FAULT);
    uint64_t number = 0;
    size_t count = 0;
    REFUSED(EMU_ERROR_PERMISSION, api->fault_inject(setup.device, &fault, &number));
    SAYS(last_error().cause, "expected uid 0, got 65534");
    REFUSED(EMU_ERROR_PERMISSION, api->fault_clear(setup.device, 0));
    REFUSED(EMU_ERROR_PERMISSION, api->fault_list(setup.device, nullptr, 0, &count));
    works(setup, setup.queue, setup.alloc(65536), 9);
  }, 65534);
}

CASE(inject_slow) {
  Setup setup;
  const uint64_t address = setup.alloc(1 << 20);
  emu_program* empty = empty_of(setup);
  const auto ticks = [&](const auto& work) {
    const uint64_t before = telemetry(setup.device).busy_ticks;
    finish(setup.queue, work());
    return telemetry(setup.device).busy_ticks - before;
  };
  const auto launches = [&] { return launch(setup.queue, empty); };
  const auto fills = [&] { return fill(setup.queue, address, 1, 1 << 20); };
  emu_program* count = setup.program(kCount);
  const auto counts = [&] { // ticks of its arithmetic
    const int64_t steps = 1000;
    const uint64_t before = telemetry(setup.device).spent_vector_ticks;
    uint64_t sequence = 0;
    OK(api->queue_launch(setup.queue, count, kOneBlock, &steps, sizeof steps, 0, &sequence));
    finish(setup.queue, sequence);
    return telemetry(setup.device).spent_vector_ticks - before;
  };
  const uint64_t launch_ticks = ticks(launches), fill_ticks = ticks(fills), count_ticks = counts();
  CHECK(count_ticks > 1000);
  CHECK(telemetry(setup.device).throttle == EMU_THROTTLE_NONE);
  emu_fault fault = fault_of(EMU_FAULT_SLOW);
  fault.factor = 7;
  fault.times = 0;
  const uint64_t number = inject(setup, fault);
  CHECK(telemetry(setup.device).throttle == EMU_THROTTLE_FAULT);
  CHECK(ticks(launches) == 7 * launch_ticks && ticks(fills) == 7 * fill_ticks);
  const emu_telemetry slow = telemetry(setup.device);
  CHECK(slow.throttled_ticks == 7 * (launch_ticks + fill_ticks));
  CHECK(counts() == 7 * count_ticks);
  SAYS(last_fault(setup).text, "makes commands slow");
  OK(api->fault_clear(setup.device, number));
  CHECK(ticks(launches) == launch_ticks && telemetry(setup.device).throttle == EMU_THROTTLE_NONE);
}

/* Factors multiply, to a million, and the clock goes on whatever they are. */
CASE(inject_slow_many_times) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  const auto ticks = [&] {
    const uint64_t before = telemetry(setup.device).busy_ticks;
    finish(setup.queue, fill(setup.queue, address, 1));
    return telemetry(setup.device).busy_ticks - before;
  };
  const uint64_t once = ticks();
  emu_fault fault = fault_of(EMU_FAULT_SLOW);
  fault.factor = 1000;
  fault.times = 0;
  for (int i = 0; i < 32; ++i) inject(setup, fault); // their product is 0 in 64 bits
  CHECK(ticks() == once * 1'000'000);
}

/* One of the doorbells of the queue for copies was lost, and `wait` came back, its command done. */
template <typename Wait>
static bool loses_a_doorbell(const Setup& setup, uint64_t address, const Wait& wait) {
  const uint64_t before = faults(setup)[0].struck;
  for (int i = 0; i < 200; ++i) {
    usleep(10'000); // the engine sleeps, unless the host is busy
    wait(fill(setup.copies, address, 1, 16));
    if (faults(setup)[0].struck > before) return true;
  }
  return false;
}

CASE(inject_lost_doorbell) {
  const Served served;
  const Neighbour neighbour;
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_fault fault = fault_of(EMU_FAULT_LOST_DOORBELL);
  fault.queue = api->queue_id(setup.copies);
  fault.times = 0;
  const uint64_t number = inject(setup, fault);
  const auto struck = [&] { return faults(setup)[0].struck; };
  uint64_t lost = 0, before = 0;
  for (int i = 0; i < 200 && lost < 3; ++i) { // by who waits
    usleep(10'000); // the engine sleeps, unless the host is busy
    const uint64_t command = fill(setup.copies, address, uint8_t(i), 16);
    finish(setup.copies, command);
    if (struck() == before) continue;
    before = struck();
    CHECK(last_fault(setup).command == command && last_fault(setup).queue == fault.queue);
    CHECK(last_fault(setup).scope == EMU_SCOPE_COMMAND && last_fault(setup).status == EMU_OK);
    SAYS(last_fault(setup).text, "rang again");
    ++lost;
  }
  CHECK(lost == 3);
  CHECK(loses_a_doorbell(setup, address, [&](uint64_t command) {
    CHECK(eventually([&] { // by who polls
      uint64_t value = 0;
      OK(api->queue_completed(setup.copies, &value));
      return value >= command;
    }));
  }));
  usleep(10'000);
  fill(setup.copies, address, 8, 16);
  usleep(1'000);
  const uint64_t second = fill(setup.copies, address, 9, 16); // its doorbell is for both
  finish(setup.copies, second);
  OK(api->fault_clear(setup.device, number));
  works(setup, setup.copies, address, 10);
}

/* The queue whose doorbell was lost is not the one that the client waits for. */
CASE(inject_lost_doorbell_of_another_queue) {
  const Served served;
  Setup setup, other;
  const uint64_t address = setup.alloc(65536);
  emu_fence *made = nullptr, *imported = nullptr;
  emu_fence_token token{};
  OK(api->fence_create(setup.context, &made));
  OK(api->fence_export(made, 0, &token));
  OK(api->fence_import(other.context, &token, &imported));
  emu_fault fault = fault_of(EMU_FAULT_LOST_DOORBELL);
  fault.queue = api->queue_id(setup.copies);
  fault.times = 0;
  inject(setup, fault);
  CHECK(loses_a_doorbell(setup, address, [&](uint64_t command) {
    uint64_t sequence = 0;
    OK(api->queue_wait(setup.queue, setup.copies, command, &sequence));
    finish(setup.queue, sequence);
  }));
  CHECK(loses_a_doorbell(setup, address, [&](uint64_t command) {
    uint64_t sequence = 0;
    OK(api->queue_signal_fence(setup.copies, made, command, 0, nullptr));
    OK(api->queue_wait_fence(other.queue, imported, command, 0, &sequence));
    finish(other.queue, sequence);
  }));
  CHECK(loses_a_doorbell(setup, address, [&](uint64_t command) {
    OK(api->queue_signal_fence(setup.copies, made, command, 0, nullptr));
    OK(api->fence_synchronize(imported, command, 20'000'000'000));
  }));
}
