#include <unistd.h>

#include <algorithm>
#include <vector>

#include "harness.h"

using namespace emu::test;

namespace {

emu_memory_info info_of(const Setup& setup) {
  emu_memory_info info{};
  info.size = sizeof info;
  OK(api->memory_info(setup.context, &info));
  return info;
}

} // namespace

CASE(memory_accounting) {
  Setup setup;
  const emu_memory_info before = info_of(setup);
  CHECK(before.allocations == 0 && before.context_bytes == 0);
  const uint64_t one = setup.alloc(1);
  const uint64_t big = setup.alloc(10 << 20);
  CHECK(one % 65536 == 0 && big % 65536 == 0 && one != 0 && one != big);
  const emu_memory_info held = info_of(setup);
  CHECK(held.allocations == 2);
  CHECK(held.context_bytes == 65536 + (10 << 20)); // whole pages
  CHECK(held.free_bytes == before.free_bytes - held.context_bytes);
  OK(api->memory_free(setup.context, one));
  OK(api->memory_free(setup.context, big));
  CHECK(info_of(setup).free_bytes == before.free_bytes && info_of(setup).context_bytes == 0);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->memory_free(setup.context, big));
  uint64_t address = 1;
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->memory_alloc(setup.context, 0, &address));
}

CASE(memory_fresh_is_zero) {
  Setup setup;
  constexpr uint64_t kBytes = 4 << 20;
  auto* host = setup.pinned(kBytes);
  CHECK(std::all_of(host, host + kBytes, [](uint8_t byte) { return byte == 0; }));
  for (int round = 0; round < 3; ++round) {
    const uint64_t address = setup.alloc(kBytes);
    setup.from_device(host, address, kBytes);
    CHECK(std::all_of(host, host + kBytes, [](uint8_t byte) { return byte == 0; }));
    std::memset(host, 0xa5, kBytes);
    setup.to_device(address, host, kBytes);
    OK(api->memory_free(setup.context, address));
  }
}

CASE(memory_scattered) {
  // Holes of one page each: a large allocation has to be put together from them.
  Setup setup;
  std::vector<uint64_t> pages;
  for (int i = 0; i < 256; ++i) pages.push_back(setup.alloc(65536));
  for (size_t i = 0; i < pages.size(); i += 2) OK(api->memory_free(setup.context, pages[i]));
  const emu_memory_info info = info_of(setup);
  const uint64_t bytes = info.free_bytes;
  const uint64_t address = setup.alloc(bytes);
  CHECK(info_of(setup).free_bytes == 0);
  auto* host = setup.pinned<uint32_t>(1 << 20);
  for (uint32_t i = 0; i < 1 << 20; ++i) host[i] = i * 2654435761u;
  setup.to_device(address, host, 4 << 20);
  std::memset(host, 0, 4 << 20);
  setup.from_device(host, address, 4 << 20);
  for (uint32_t i = 0; i < 1 << 20; ++i) CHECK(host[i] == i * 2654435761u);
}

CASE(memory_short) {
  Setup setup;
  const uint64_t total = info_of(setup).total_bytes;
  setup.alloc(total / 2);
  uint64_t address = 1;
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->memory_alloc(setup.context, total, &address));
  CHECK(address == 0);
  SAYS(last_error().cause, "process " + std::to_string(getpid()));
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->memory_alloc(setup.context, UINT64_MAX - 5, &address));
  setup.alloc(total / 2); // what is left can still be had
  void* pointer = &address;
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->host_alloc(setup.context, uint64_t(1) << 50, &pointer));
  CHECK(pointer == nullptr);
}

CASE(memory_free_under_work) {
  // A free waits for the command that runs: nothing is taken away under it. One that has not
  // begun finds its pages gone, and faults its context; the device goes on either way.
  constexpr uint64_t kBytes = 32 << 20;
  for (int round = 0; round < 20; ++round) {
    Setup setup;
    const uint64_t address = setup.alloc(kBytes);
    OK(api->queue_fill(setup.copies, address, 1, kBytes, 0, nullptr));
    usleep(useconds_t(round * 100));
    OK(api->memory_free(setup.context, address));
    const emu_status status = api->queue_synchronize(setup.copies, 1, UINT64_MAX);
    if (status != EMU_OK) REFUSED(EMU_ERROR_PAGE_FAULT, status);
  }
  Setup setup;
  setup.alloc(65536);
}
