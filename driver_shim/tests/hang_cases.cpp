/* Launches that hang, and resets of their queues. */
#include "inject.h"

using namespace emu::test;

CASE(inject_hang_loses_its_queue_only) {
  const Served served({"--launch-seconds", "0.2"});
  const Neighbour neighbour;
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* third = setup.make_queue(EMU_QUEUE_COMPUTE);
  emu_fence* go = nullptr; // once all is submitted that a queue that is lost would refuse
  OK(api->fence_create(setup.context, &go));
  inject(setup, mine(EMU_FAULT_HANG));
  finish(setup.queue, fill(setup.queue, address, 1));
  OK(api->queue_wait_fence(setup.queue, go, 1, 0, nullptr));
  emu_program* empty = empty_of(setup);
  const uint64_t hung = launch(setup.queue, empty);
  const uint64_t behind = fill(setup.queue, address, 2);
  uint64_t waits = 0;
  OK(api->queue_wait(third, setup.queue, behind, &waits));
  OK(api->fence_signal(go, 1));
  REFUSED(EMU_ERROR_LAUNCH_TIMEOUT, api->queue_synchronize(setup.queue, behind, 20'000'000'000));
  emu_error error = last_error();
  CHECK(error.scope == EMU_SCOPE_QUEUE && error.queue == api->queue_id(setup.queue) && error.command == hung);
  CHECK(std::string(error.program) == "empty");
  SAYS(error.cause, "0.2 seconds");
  SAYS(error.mend, "reset the queue");
  const emu_event told = last_fault(setup, EMU_ERROR_LAUNCH_TIMEOUT); // others' are told behind it
  CHECK(told.command == hung && told.queue == error.queue && told.scope == EMU_SCOPE_QUEUE);
  // What was done before it is done, and what comes after it is refused.
  OK(api->queue_synchronize(setup.queue, hung - 1, 0));
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_fill(setup.queue, address, 3, 1, 0, nullptr));
  SAYS(last_error().cause, "earlier fault");
  CHECK(last_error().command == hung && last_error().scope == EMU_SCOPE_QUEUE);
  // The queue that waits for it is lost too, and says why; one that doesn't is not.
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(third, waits, 20'000'000'000));
  CHECK(last_error().command == waits && last_error().queue == api->queue_id(third));
  works(setup, setup.copies, address, 4);
  OK(api->queue_reset(setup.queue));
  OK(api->queue_reset(third));
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.queue, behind, UINT64_MAX));
  CHECK(last_error().command == behind);
  SAYS(last_error().cause, "given up");
  OK(api->queue_synchronize(setup.queue, hung - 1, 0));
  works(setup, setup.queue, address, 5);
  // A fence on what was given up does not pass for one that was reached.
  OK(api->queue_wait(third, setup.queue, behind, &waits));
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(third, waits, UINT64_MAX));
  OK(api->queue_reset(third));
  works(setup, third, address, 6);
  uint64_t completed = 0;
  OK(api->queue_completed(setup.queue, &completed));
  CHECK(completed == behind + 2);
  finish(setup.queue, launch(setup.queue, empty)); // the fault has struck its once
}

/* A queue still waits for one that was lost, or reset, and then destroyed: it is lost, and not its context. */
CASE(queue_destroyed_that_another_waits_for) {
  const Served served({"--launch-seconds", "0.2"});
  for (const bool reset : {false, true}) {
    Setup setup;
    const uint64_t address = setup.alloc(65536);
    emu_fence* fence = nullptr;
    OK(api->fence_create(setup.context, &fence));
    inject(setup, mine(EMU_FAULT_HANG));
    OK(api->queue_wait_fence(setup.queue, fence, 1, 0, nullptr)); // until all is submitted that follows it
    const uint64_t done = fill(setup.queue, address, 1), hung = launch(setup.queue, empty_of(setup));
    uint64_t first = 0, second = 0;
    OK(api->queue_wait_fence(setup.copies, fence, 2, 0, nullptr));
    OK(api->queue_wait(setup.copies, setup.queue, done, &first));
    OK(api->queue_wait(setup.copies, setup.queue, hung, &second));
    OK(api->fence_signal(fence, 1));
    REFUSED(EMU_ERROR_LAUNCH_TIMEOUT, api->queue_synchronize(setup.queue, hung, 20'000'000'000));
    if (reset) OK(api->queue_reset(setup.queue));
    OK(api->queue_destroy(setup.queue));
    OK(api->fence_signal(fence, 2));
    REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.copies, second, 20'000'000'000));
    CHECK(last_error().scope == EMU_SCOPE_QUEUE && last_error().command == second);
    SAYS(last_error().cause, "waits for command " + std::to_string(hung));
    OK(api->queue_synchronize(setup.copies, first, 0));
    OK(api->queue_reset(setup.copies));
    works(setup, setup.copies, address, 4);
  }
}

CASE(queue_reset_gives_up_what_runs_and_what_waits) {
  const Served served({"--tick-budget", "18446744073709551615"});
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_program* count = setup.program(kCount);
  const int64_t forever = INT64_MAX;
  OK(api->queue_reset(setup.queue)); // nothing to give up
  works(setup, setup.queue, address, 1);
  for (int round = 0; round < 3; ++round) {
    uint64_t done = 0, running = 0, last = 0;
    OK(api->queue_completed(setup.queue, &done));
    OK(api->queue_launch(setup.queue, count, kOneBlock, &forever, sizeof forever, 0, &running));
    for (int i = 0; i < 100; ++i) last = fill(setup.queue, address, 9);
    REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, running, 50'000'000)); // it runs
    OK(api->queue_reset(setup.queue));
    for (const uint64_t one : {running, running + 50, last}) {
      REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.queue, one, UINT64_MAX));
      CHECK(last_error().command == one);
    }
    OK(api->queue_synchronize(setup.queue, done, 0));
    works(setup, setup.queue, address, uint8_t(round));
    OK(api->queue_synchronize(setup.queue, last + 1, 0));
  }
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.queue, 4, UINT64_MAX)); // of the first round
  OK(api->queue_destroy(setup.queue));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_reset(setup.queue));
}

CASE(queue_reset_many_times) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_queue* never = setup.make_queue(EMU_QUEUE_COMPUTE);
  uint64_t first = 0;
  for (int i = 0; i < 200; ++i) { // more than are kept apart
    OK(api->queue_wait(setup.queue, never, 1, nullptr));
    const uint64_t one = fill(setup.queue, address, 1, 65536);
    if (first == 0) first = one;
    OK(api->queue_reset(setup.queue));
    works(setup, setup.queue, address, uint8_t(i));
  }
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.queue, first, 0));
  CHECK(last_error().command == first);
}
