#include "harness.h"

using namespace emu::test;

namespace {

struct StoreArguments {
  uint64_t address;
  int32_t value;
  int32_t unused;
};

} // namespace

CASE(fault_is_told_whole) {
  Setup setup;
  emu_program* store = setup.program(kStore);
  const uint64_t good = setup.alloc(65536);
  StoreArguments arguments{good, 1, 0};
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, nullptr));
  arguments.address = 64; // in the null guard
  OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, &sequence));
  const emu_status after = api->queue_fill(setup.queue, good, 7, 1, 0, nullptr); // never runs
  CHECK(after == EMU_OK || after == EMU_ERROR_CONTEXT_LOST); // the fault may be there already
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  const emu_error error = last_error();
  CHECK(error.scope == EMU_SCOPE_CONTEXT);
  CHECK(error.queue == api->queue_id(setup.queue));
  CHECK(error.command == 2 && error.address == 64);
  CHECK(std::string(error.program) == "store");
  CHECK(error.cause[0] != '\0' && error.mend[0] != '\0');
  // On every queue of the context, and for ever.
  uint64_t completed = 0;
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.copies, 1, UINT64_MAX));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_completed(setup.queue, &completed));
  REFUSED(EMU_ERROR_CONTEXT_LOST, api->queue_fill(setup.queue, good, 0, 1, 0, nullptr));
  SAYS(last_error().cause, "earlier fault");
  CHECK(last_error().command == 2);
  uint64_t address = 0;
  REFUSED(EMU_ERROR_CONTEXT_LOST, api->memory_alloc(setup.context, 1, &address));
  OK(api->memory_free(setup.context, good)); // giving back still works
}

CASE(fault_spares_other_contexts) {
  Setup bad;
  emu_context* context = nullptr;
  emu_queue* queue = nullptr;
  OK(api->context_create(bad.device, &context));
  OK(api->queue_create(context, EMU_QUEUE_COMPUTE, 0, &queue));
  uint64_t address = 0;
  OK(api->memory_alloc(context, 65536, &address));
  emu_program* store = Setup::load(context, kStore);
  StoreArguments arguments{address, 0, 0};
  uint64_t sequence = 0;
  // Memory of one context is no address of another of the process.
  const uint64_t other = bad.alloc(65536);
  CHECK(other != address);
  for (int32_t i = 0; i < 2000; ++i) {
    arguments.value = i;
    OK(api->queue_launch(queue, store, kOneBlock, &arguments, sizeof arguments, 0, &sequence));
    if (i == 1000) OK(api->queue_fill(bad.queue, address, 1, 1, 0, nullptr));
  }
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(bad.queue, 1, UINT64_MAX));
  CHECK(last_error().address == address);
  OK(api->queue_synchronize(queue, sequence, UINT64_MAX));
  CHECK(telemetry(bad.device).faults == 1);
  OK(api->context_destroy(context));
}

CASE(fault_kinds) {
  const auto faulting = [](emu_status expected, const std::string& text, const StoreArguments& arguments,
                           size_t bytes) {
    Setup setup;
    emu_program* program = setup.program(text);
    OK(api->queue_launch(setup.queue, program, kOneBlock, &arguments, bytes, 0, nullptr));
    REFUSED(expected, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
    CHECK(last_error().command == 1);
  };
  faulting(EMU_ERROR_MISALIGNED, kStore, {65537, 1, 0}, sizeof(StoreArguments));
  faulting(EMU_ERROR_PAGE_FAULT, kStore, {uint64_t(1) << 50, 1, 0}, sizeof(StoreArguments));
  const auto copying = [](auto submit) {
    Setup setup;
    const uint64_t address = setup.alloc(65536);
    OK(submit(setup, address));
    REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
    CHECK(last_error().address == address + 65536);
  };
  copying([](Setup& s, uint64_t at) { return api->queue_fill(s.queue, at, 1, 65537, 0, nullptr); });
  copying([](Setup& s, uint64_t at) { return api->queue_copy_on_device(s.queue, at + 65536, at, 9, 0, nullptr); });
  copying([](Setup& s, uint64_t at) {
    return api->queue_copy_to_device(s.queue, at + 1, s.pinned(65536), 65536, 0, nullptr);
  });
  copying([](Setup& s, uint64_t at) {
    return api->queue_copy_from_device(s.queue, s.pinned(65536), at + 1, 65536, 0, nullptr);
  });
  Setup setup;
  OK(api->queue_fill(setup.queue, UINT64_MAX - 3, 1, 100, 0, nullptr)); // wraps around
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
}

CASE(fault_after_free) {
  Setup setup;
  emu_program* store = setup.program(kStore);
  const uint64_t address = setup.alloc(65536);
  OK(api->memory_free(setup.context, address));
  const StoreArguments arguments{address + 4, 1, 0};
  OK(api->queue_launch(setup.queue, store, kOneBlock, &arguments, sizeof arguments, 0, nullptr));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
  CHECK(last_error().address == address + 4);
}

CASE(fault_budget) {
  const Served device({"--tick-budget", "1000000"});
  Setup setup;
  emu_program* count = setup.program(kCount);
  const int64_t steps = INT64_MAX;
  OK(api->queue_launch(setup.queue, count, kOneBlock, &steps, sizeof steps, 0, nullptr));
  REFUSED(EMU_ERROR_BUDGET, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
  CHECK(std::string(last_error().program) == "count");
}
