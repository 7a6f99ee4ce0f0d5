/* The window of interfaces, with libraries that were built for one minor less and one more than this driver: an older
 * client works on a newer device, and anything else is refused with both numbers. */
#include <dlfcn.h>

#include "life.h"

using namespace emu::test;

namespace {

constexpr uint32_t kOlder = EMU_DRIVER_INTERFACE - 1, kNewer = EMU_DRIVER_INTERFACE + 1;

std::string dotted(uint32_t number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000); }

/* The library's table for a program that was built for `number`; null when it is refused. */
const emu_driver_api* table_of(const char* path, uint32_t number, emu_error* error = nullptr) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(__FILE__, __LINE__, dlerror());
  const auto get_api = reinterpret_cast<emu_driver_get_api_fn>(dlsym(library, "emu_driver_get_api"));
  CHECK(get_api != nullptr);
  return get_api(number, error);
}

void use(const char* path, uint32_t number) {
  api = table_of(path, number);
  CHECK(api != nullptr && api->version == number);
}

void works() {
  Life life;
  for (const Step& step : kSteps) expect_status(step.run(life), EMU_OK, step.name, __FILE__, __LINE__);
}

void is_refused(uint32_t client, uint32_t device) {
  emu_device* handle = nullptr;
  REFUSED(EMU_ERROR_VERSION, api->device_open(0, &handle));
  const emu_error error = last_error();
  SAYS(error.cause, dotted(client) + " of this process");
  SAYS(error.cause, dotted(device) + " of emud");
  SAYS(error.mend, "emu-driver-shim");
}

} // namespace

CASE(window_older_library) {
  use(EMU_OLDER_LIBRARY, kOlder);
  {
    const Served device;
    works();
  }
  const Served device({"--interface", std::to_string(kOlder)});
  works();
}

CASE(window_newer_library) {
  use(EMU_NEWER_LIBRARY, kNewer);
  {
    const Served device({"--interface", std::to_string(kNewer)});
    works();
  }
  const Served device;
  is_refused(kNewer, EMU_DRIVER_INTERFACE);
}

/* Two callers in one process and on one connection, whose contexts each lose what they know of. */
CASE(window_of_a_caller) {
  const Served device({"--launch-seconds", "0.2"});
  Dl_info library{};
  CHECK(dladdr(reinterpret_cast<const void*>(api->device_open), &library) != 0);
  const uint64_t forever = INT64_MAX / 1000;
  for (const uint32_t number : {uint32_t(EMU_DRIVER_INTERFACE), uint32_t(1001), uint32_t(EMU_DRIVER_INTERFACE)}) {
    api = table_of(library.dli_fname, number);
    const Setup setup;
    uint64_t sequence = 0;
    emu_program* count = setup.program(kCount);
    OK(api->queue_launch(setup.queue, count, kOneBlock, &forever, sizeof forever, 0, &sequence));
    REFUSED(EMU_ERROR_LAUNCH_TIMEOUT, api->queue_synchronize(setup.queue, sequence, 20'000'000'000));
    const bool knows = number != 1001;
    CHECK(last_error().scope == (knows ? EMU_SCOPE_QUEUE : EMU_SCOPE_CONTEXT));
    uint64_t address = 0;
    const emu_status status = api->memory_alloc(setup.context, 4, &address);
    CHECK(status == (knows ? EMU_OK : EMU_ERROR_CONTEXT_LOST));
  }
}

/* Before 1.2 a queue that is destroyed has done what was submitted to it. */
CASE(window_of_a_destroyed_queue) {
  Dl_info library{};
  CHECK(dladdr(reinterpret_cast<const void*>(api->device_open), &library) != 0);
  for (const uint32_t number : {uint32_t(1000), uint32_t(1001)}) {
    api = table_of(library.dli_fname, number);
    const Setup setup;
    const uint64_t address = setup.alloc(65536);
    auto* host = setup.pinned<uint8_t>(16);
    const int64_t steps = 3'000'000;
    uint64_t sequence = 0;
    OK(api->queue_launch(setup.queue, setup.program(kCount), kOneBlock, &steps, sizeof steps, 0, nullptr));
    OK(api->queue_fill(setup.queue, address, 5, 16, 0, &sequence));
    OK(api->queue_wait(setup.copies, setup.queue, sequence, nullptr));
    OK(api->queue_copy_from_device(setup.copies, host, address, 16, 0, nullptr));
    OK(api->queue_destroy(setup.copies));
    CHECK(host[0] == 5 && host[15] == 5);
  }
}

CASE(window_of_a_library) {
  emu_error error{};
  error.size = sizeof error;
  CHECK(table_of(EMU_OLDER_LIBRARY, EMU_DRIVER_INTERFACE, &error) == nullptr);
  CHECK(error.status == EMU_ERROR_VERSION);
  SAYS(error.cause, dotted(EMU_DRIVER_INTERFACE) + " was asked for");
  SAYS(error.cause, dotted(kOlder));
  SAYS(error.mend, dotted(EMU_DRIVER_INTERFACE));
  const emu_driver_api* const newer = table_of(EMU_NEWER_LIBRARY, EMU_DRIVER_INTERFACE);
  CHECK(newer != nullptr && newer->version == kNewer && newer->size >= sizeof(emu_driver_api));
  for (uint32_t number = 1000; number <= kNewer; ++number) CHECK(table_of(EMU_NEWER_LIBRARY, number) != nullptr);
}
