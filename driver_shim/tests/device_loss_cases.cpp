/* Injected faults that end the device: every client is told, and a reset brings it back. */
#include "firmware_images.h"
#include "inject.h"

using namespace emu::test;

namespace {

/* The device is lost with its cause, to its neighbour too, and works after a reset. */
void loses_the_device(emu_fault_kind kind, emu_status status) {
  const Served served;
  Client neighbour([status] {
    Setup setup;
    const uint64_t address = setup.alloc(65536);
    std::printf("ready\n");
    std::fflush(stdout);
    emu_status found = EMU_OK;
    for (int i = 0; i < 10'000'000 && found == EMU_OK; ++i) {
      uint64_t sequence = 0;
      found = api->queue_fill(setup.queue, address, 1, 16, 0, &sequence);
      if (found == EMU_OK) found = api->queue_synchronize(setup.queue, sequence, 20'000'000'000);
    }
    CHECK(found == status || found == EMU_ERROR_CONTEXT_LOST);
    REFUSED(status, api->queue_synchronize(setup.queue, 1, 0));
    CHECK(last_error().command == 0 && last_error().scope == EMU_SCOPE_DEVICE); // it was another's
  });
  CHECK(neighbour.line() == "ready");
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  inject(setup, mine(kind));
  REFUSED(status, api->queue_synchronize(setup.queue, fill(setup.queue, address, 1), UINT64_MAX));
  CHECK(last_error().command == 1 && last_error().scope == EMU_SCOPE_DEVICE);
  CHECK(last_error().queue == api->queue_id(setup.queue));
  SAYS(last_error().mend, "reset the device");
  CHECK(last_fault(setup).command == 1 && last_fault(setup).scope == EMU_SCOPE_DEVICE);
  emu_context* context = nullptr;
  REFUSED(status, api->context_create(setup.device, &context));
  SAYS(last_error().mend, "reset the device");
  if (kind == EMU_FAULT_THERMAL_TRIP) {
    CHECK(telemetry(setup.device).throttle == EMU_THROTTLE_TRIP && telemetry(setup.device).temperature_celsius >= 104);
  }
  CHECK(neighbour.wait() == 0);
  const uint64_t before = telemetry(setup.device).device_ticks;
  OK(api->device_reset(setup.device));
  const emu_telemetry after = telemetry(setup.device);
  CHECK(after.throttle == EMU_THROTTLE_NONE && after.temperature_celsius <= 80);
  CHECK((after.device_ticks - before > 1'000'000'000) == (kind == EMU_FAULT_THERMAL_TRIP)); // it took its time to cool
  const Setup again;
  works(again, again.queue, again.alloc(65536), 8);
}

} // namespace

CASE(inject_thermal_trip) { loses_the_device(EMU_FAULT_THERMAL_TRIP, EMU_ERROR_THERMAL_TRIP); }
CASE(inject_firmware_crash) { loses_the_device(EMU_FAULT_FIRMWARE_CRASH, EMU_ERROR_FIRMWARE_CRASH); }

CASE(inject_thermal_trip_in_hot_air) {
  const Served served({"--ambient", "90"});
  Setup setup;
  inject(setup, fault_of(EMU_FAULT_THERMAL_TRIP));
  const uint64_t last = fill(setup.queue, setup.alloc(1), 1, 1);
  REFUSED(EMU_ERROR_THERMAL_TRIP, api->queue_synchronize(setup.queue, last, UINT64_MAX));
  REFUSED(EMU_ERROR_THERMAL_TRIP, api->device_reset(setup.device));
  SAYS(last_error().mend, "--ambient");
}

namespace {

void crash() {
  Setup setup;
  inject(setup, fault_of(EMU_FAULT_FIRMWARE_CRASH));
  const uint64_t last = launch(setup.queue, empty_of(setup));
  REFUSED(EMU_ERROR_FIRMWARE_CRASH, api->queue_synchronize(setup.queue, last, UINT64_MAX));
  OK(api->device_reset(setup.device));
}

} // namespace

CASE(inject_crashes_in_a_row) {
  const Served served;
  emu_device* device = open_device();
  for (int i = 0; i < 4; ++i) crash(); // there is no other slot
  CHECK(firmware_of(device).active == 0);
  OK(install(device, make_image("1.1.0", 1)));
  OK(api->device_reset(device)); // not after a crash: counts from here
  for (int i = 0; i < 2; ++i) crash();
  CHECK(running(device) == "1.0.0");
  OK(api->device_reset(device));
  for (int i = 0; i < 2; ++i) crash();
  CHECK(running(device) == "1.0.0");
  crash();
  CHECK(running(device) == "1.1.0" && firmware_of(device).previous == 0);
  for (int i = 0; i < 2; ++i) crash();
  CHECK(running(device) == "1.1.0");
  crash();
  CHECK(running(device) == "1.0.0");
}
