/* What commands may do with pages: as their context says, and no command gets past it. */
#include <string>

#include "inject.h"

using namespace emu::test;

namespace {

constexpr uint64_t kPage = 65536;

/* Three pages of sevens, of which the middle one has this access. */
struct Guarded : Setup {
  explicit Guarded(uint32_t access) {
    finish(queue, fill(queue, address, 7, 3 * kPage));
    allow(access);
  }
  void allow(uint32_t access) const { OK(api->memory_protect(context, middle, kPage, access)); }
  uint64_t launch(const std::string& instruction) const {
    const std::string text = ".program touch\n.lanes 64\n.args 8\n arg.i64 s0, 0\n " + instruction + "\n exit\n";
    uint64_t sequence = 0;
    OK(api->queue_launch(queue, program(text), kOneBlock, &middle, sizeof middle, 0, &sequence));
    return sequence;
  }
  const uint64_t address = alloc(3 * kPage), middle = address + kPage;
};

constexpr uint32_t kNothing = 0;
const std::string kLoad = "sload.i32 s1, s0", kStoreThere = "sstore.i32 s0, s0";

/* `submit` gives a command that reaches the middle page and may not; the fault names that page. */
template <typename Submit>
void refused(uint32_t access, const char* what, Submit submit) {
  const Guarded guarded(access);
  const uint64_t command = submit(guarded);
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(guarded.queue, command, UINT64_MAX));
  const emu_error error = last_error();
  CHECK(error.address == guarded.middle && error.command == command);
  CHECK(error.queue == api->queue_id(guarded.queue));
  SAYS(error.cause, what);
  OK(api->memory_free(guarded.context, guarded.address)); // needs no access
}

uint64_t read_all(const Guarded& guarded) {
  uint64_t sequence = 0;
  OK(api->queue_copy_from_device(guarded.queue, guarded.pinned(2 * kPage), guarded.address, 2 * kPage, 0, &sequence));
  return sequence;
}

uint64_t copy(const Guarded& guarded, uint64_t to, uint64_t from) {
  uint64_t sequence = 0;
  OK(api->queue_copy_on_device(guarded.queue, to, from, 16, 0, &sequence));
  return sequence;
}

} // namespace

CASE(access_is_refused) {
  for (const uint32_t access : {kNothing, EMU_MEMORY_READ}) {
    refused(access, "mapped for writing, got one that may not",
            [](const Guarded& guarded) { return guarded.launch(kStoreThere); });
    refused(access, "writes", [](const Guarded& one) { return fill(one.queue, one.address, 1, 2 * kPage); });
    refused(access, "writes", [](const Guarded& guarded) { return copy(guarded, guarded.middle, guarded.address); });
  }
  for (const uint32_t access : {kNothing, EMU_MEMORY_WRITE}) {
    refused(access, "mapped for reading, got one that may not",
            [](const Guarded& guarded) { return guarded.launch(kLoad); });
    refused(access, "reads", read_all);
    refused(access, "reads", [](const Guarded& guarded) { return copy(guarded, guarded.address, guarded.middle); });
  }
}

CASE(access_is_given) {
  const Guarded guarded(EMU_MEMORY_READ);
  finish(guarded.queue, read_all(guarded));
  finish(guarded.queue, guarded.launch(kLoad));
  guarded.allow(EMU_MEMORY_WRITE);
  finish(guarded.queue, guarded.launch(kStoreThere));
  finish(guarded.queue, fill(guarded.queue, guarded.address, 9, 3 * kPage));
  guarded.allow(EMU_MEMORY_READ | EMU_MEMORY_WRITE);
  finish(guarded.queue, copy(guarded, guarded.middle, guarded.address));
  auto* const host = guarded.pinned(3 * kPage);
  guarded.from_device(host, guarded.address, 3 * kPage);
  for (uint64_t i = 0; i < 3 * kPage; ++i) CHECK(host[i] == 9);
  // Of pages that go, nothing stays with those that come.
  guarded.allow(kNothing);
  OK(api->memory_free(guarded.context, guarded.address));
  const uint64_t again = guarded.alloc(3 * kPage);
  finish(guarded.queue, fill(guarded.queue, again, 3, 3 * kPage));
  guarded.from_device(host, again, 3 * kPage);
}

CASE(access_of_a_peer) {
  // Also to who has it as a peer: the copy's queue is in the other context.
  const Guarded guarded(EMU_MEMORY_READ);
  const Setup other;
  const uint64_t there = other.alloc(kPage);
  uint64_t sequence = 0;
  OK(api->queue_copy_peer(other.queue, other.context, there, guarded.context, guarded.middle, 16, 0, &sequence));
  finish(other.queue, sequence);
  OK(api->queue_copy_peer(other.queue, guarded.context, guarded.middle, other.context, there, 16, 0, &sequence));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(other.queue, sequence, UINT64_MAX));
  CHECK(last_error().address == guarded.middle);
  finish(guarded.queue, read_all(guarded)); // the one that was to be written goes on
}

CASE(access_and_bit_errors) {
  const Guarded guarded(kNothing);
  emu_fault fault = fault_of(EMU_FAULT_BIT_CORRECTED);
  fault.address = guarded.middle;
  inject(guarded, fault);
  guarded.allow(EMU_MEMORY_READ); // the error is still there, and is found by who reads
  CHECK(telemetry(guarded.device).ecc_corrected == 0);
  finish(guarded.queue, read_all(guarded));
  CHECK(telemetry(guarded.device).ecc_corrected == 1);
  fault.kind = EMU_FAULT_BIT_UNCORRECTED;
  inject(guarded, fault);
  guarded.allow(EMU_MEMORY_WRITE); // who may not read does not find it
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(guarded.queue, read_all(guarded), UINT64_MAX));
  CHECK(telemetry(guarded.device).ecc_uncorrected == 0);
}

CASE(access_of_what_is_not_held) {
  const Guarded guarded(EMU_MEMORY_READ | EMU_MEMORY_WRITE);
  const auto refuse = [&](uint64_t address, uint64_t bytes, uint32_t access, const char* what) {
    REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->memory_protect(guarded.context, address, bytes, access));
    SAYS(last_error().cause, what);
  };
  refuse(guarded.address + 1, kPage, 0, "whole pages");
  refuse(guarded.address, kPage - 1, 0, "whole pages");
  refuse(guarded.address, 0, 0, "whole pages");
  refuse(guarded.address, kPage, 4, "expected EMU_MEMORY_READ");
  refuse(0, kPage, 0, "no page of the context is at 0x0");
  refuse(guarded.address, UINT64_MAX - kPage + 1, 0, "no page of the context");
  refuse(UINT64_MAX - kPage + 1, 2 * kPage, 0, "no page of the context");
  const Setup other;
  const uint64_t others = other.alloc(kPage);
  refuse(others, kPage, 0, "no page of the context");
  finish(guarded.queue, read_all(guarded)); // and nothing was changed
}
