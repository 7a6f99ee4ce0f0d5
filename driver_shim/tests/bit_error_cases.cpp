/* Bit errors in device memory: corrected, or told; never wrong data. */
#include "inject.h"

using namespace emu::test;

namespace {

/* Reads the i32 at the address at offset 0 of the arguments. */
const std::string kRead = ".program read\n.lanes 64\n.args 8\n arg.i64 s0, 0\n sload.i32 s1, s0\n exit\n";

/* A page of `value`, with a bit error in it. */
uint64_t damaged(const Setup& setup, emu_fault_kind kind, uint8_t value, uint64_t at = 100) {
  const uint64_t address = setup.alloc(3 * 65536) + 65536;
  finish(setup.queue, fill(setup.queue, address, value));
  emu_fault fault = fault_of(kind);
  fault.address = address + at;
  inject(setup, fault);
  return address;
}

uint64_t read_by_program(const Setup& setup, uint64_t address) {
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, setup.program(kRead), kOneBlock, &address, sizeof address, 0, &sequence));
  return sequence;
}

} // namespace

CASE(inject_bit_corrected) {
  Setup setup;
  auto* host = setup.pinned<uint8_t>(65536);
  for (int way = 0; way < 2; ++way) {
    const uint64_t address = damaged(setup, EMU_FAULT_BIT_CORRECTED, 0x5a);
    uint64_t command = 0;
    if (way == 0) OK(api->queue_copy_from_device(setup.queue, host, address, 65536, 0, &command));
    else command = read_by_program(setup, address + 4096); // of the same page
    finish(setup.queue, command);
    CHECK(telemetry(setup.device).ecc_corrected == uint64_t(way) + 1 && telemetry(setup.device).ecc_uncorrected == 0);
    CHECK(last_fault(setup).command == command && last_fault(setup).queue == api->queue_id(setup.queue));
    SAYS(last_fault(setup).text, "1 bit errors were corrected");
    setup.from_device(host, address, 65536);
    for (int i = 0; i < 65536; ++i) CHECK(host[i] == 0x5a);
    CHECK(telemetry(setup.device).ecc_corrected == uint64_t(way) + 1); // it was written back
    if (way == 0) continue;
    emu_fault fault = fault_of(EMU_FAULT_BIT_CORRECTED); // two more in the page, beside the one that is no more
    fault.address = address + 7;
    inject(setup, fault);
    inject(setup, fault);
    setup.from_device(host, address + 100, 8);
    CHECK(telemetry(setup.device).ecc_corrected == 4);
  }
  for (const emu_fault& fault : faults(setup)) CHECK(fault.struck == 1);
  CHECK(faults(setup).size() == 4);
}

CASE(inject_bit_uncorrected) {
  const Served served;
  const Neighbour neighbour;
  uint64_t found = 0;
  const auto poisoned = [&](const auto& read) {
    Setup setup;
    const uint64_t address = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 1);
    auto* host = setup.pinned<uint8_t>(3 * 65536);
    uint64_t command = 0;
    finish(setup.queue, fill(setup.queue, address - 65536, 2)); // the pages around are good
    finish(setup.queue, fill(setup.queue, address, 3, 65535));  // all but a byte
    read(setup, address, host, &command);
    REFUSED(EMU_ERROR_MEMORY_ERROR, api->queue_synchronize(setup.queue, command, UINT64_MAX));
    CHECK(last_error().scope == EMU_SCOPE_CONTEXT && last_error().command == command);
    CHECK(last_error().address == address + 100);
    for (int i = 0; i < 3 * 65536; ++i) CHECK(host[i] == 0); // nothing of the copy
    CHECK(telemetry(setup.device).ecc_uncorrected == ++found && telemetry(setup.device).ecc_corrected == 0);
    CHECK(last_fault(setup).status == EMU_ERROR_MEMORY_ERROR && last_fault(setup).command == command);
    CHECK(faults(setup).back().struck == 1);
  };
  poisoned([](const Setup& setup, uint64_t address, uint8_t* host, uint64_t* command) {
    OK(api->queue_copy_from_device(setup.queue, host, address - 65536, 3 * 65536, 0, command));
  });
  poisoned([](const Setup& setup, uint64_t address, uint8_t*, uint64_t* command) {
    OK(api->queue_copy_on_device(setup.queue, address + 65536, address + 8, 8, 0, command));
  });
  poisoned([](const Setup& setup, uint64_t address, uint8_t*, uint64_t* command) {
    *command = read_by_program(setup, address + 65532);
  });
}

CASE(inject_bit_that_nobody_reads) {
  Setup setup;
  auto* host = setup.pinned<uint8_t>(65536);
  const uint64_t filled = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 1);
  finish(setup.queue, fill(setup.queue, filled - 1, 7, 65538)); // the whole page, and around it
  setup.from_device(host, filled, 65536);
  for (int i = 0; i < 65536; ++i) CHECK(host[i] == 7);
  const uint64_t copied = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 1);
  setup.to_device(copied, host, 65536);
  setup.from_device(host, copied, 65536);
  const uint64_t freed = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 1);
  CHECK(faults(setup).size() == 1);
  OK(api->memory_free(setup.context, freed - 65536));
  CHECK(faults(setup).empty());
  setup.from_device(host, setup.alloc(3 * 65536) + 65536, 65536);
  const uint64_t cleared = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 9);
  OK(api->fault_clear(setup.device, 0));
  setup.from_device(host, cleared, 65536);
  for (int i = 0; i < 65536; ++i) CHECK(host[i] == 9);
  CHECK(telemetry(setup.device).ecc_uncorrected == 0 && telemetry(setup.device).ecc_corrected == 0);
  emu_fault fault = fault_of(EMU_FAULT_BIT_CORRECTED);
  fault.address = freed;
  uint64_t number = 0;
  OK(api->memory_free(setup.context, filled - 65536));
  fault.address = filled;
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->fault_inject(setup.device, &fault, &number));
}

/* One that was found is not found again when its page was written anew since: by its owner, who outlives the reader. */
CASE(inject_bit_found_and_overwritten) {
  const Served served;
  Setup setup;
  const uint64_t address = damaged(setup, EMU_FAULT_BIT_UNCORRECTED, 1);
  {
    const Setup reader;
    const uint64_t to = reader.alloc(65536);
    uint64_t sequence = 0;
    OK(api->queue_copy_peer(reader.queue, reader.context, to, setup.context, address, 8, 0, &sequence));
    REFUSED(EMU_ERROR_MEMORY_ERROR, api->queue_synchronize(reader.queue, sequence, 20'000'000'000));
  }
  finish(setup.queue, fill(setup.queue, address, 7));
  emu_fault fault = fault_of(EMU_FAULT_BIT_CORRECTED);
  fault.address = address + 1;
  inject(setup, fault);
  auto* host = setup.pinned<uint8_t>(65536);
  setup.from_device(host, address, 65536);
  for (int i = 0; i < 65536; ++i) CHECK(host[i] == 7);
  CHECK(telemetry(setup.device).ecc_uncorrected == 1 && telemetry(setup.device).ecc_corrected == 1);
}

/* Those of a context that is gone are too. */
CASE(inject_bit_of_a_destroyed_context) {
  const Served served;
  const Setup watcher;
  {
    const Setup setup;
    damaged(setup, EMU_FAULT_BIT_CORRECTED, 1);
    CHECK(faults(watcher).size() == 1);
  }
  CHECK(faults(watcher).empty());
}
