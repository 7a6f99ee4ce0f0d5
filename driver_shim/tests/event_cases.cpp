/* Cases about the event log, and about the reset that it tells of. */
#include <grp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "emu_constants.h"
#include "firmware_images.h"
#include "ring.h"

using namespace emu;
using namespace emu::test;

namespace {

std::vector<emu_event> events_of(emu_device* device, uint64_t after = 0, uint64_t* dropped = nullptr) {
  std::vector<emu_event> events(4096);
  size_t count = 0;
  uint64_t gone = 0;
  OK(api->event_read(device, after, events.data(), events.size(), &count, &gone));
  if (dropped != nullptr) *dropped = gone;
  else CHECK(gone == 0);
  events.resize(count);
  if (count > 0) CHECK(events.back().sequence == after + count + gone);
  for (size_t i = 1; i < count; ++i) {
    CHECK(events[i].sequence > events[i - 1].sequence && events[i].ticks >= events[i - 1].ticks);
    CHECK(events[i].nanoseconds >= events[i - 1].nanoseconds);
  }
  return events;
}

std::vector<uint32_t> kinds_of(const std::vector<emu_event>& events) {
  std::vector<uint32_t> kinds;
  for (const emu_event& event : events) kinds.push_back(event.kind);
  return kinds;
}

using Kinds = std::vector<uint32_t>;

void page_fault(const Setup& setup) {
  OK(api->queue_fill(setup.queue, 0x123456, 1, 1, 0, nullptr));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 1, UINT64_MAX));
}

} // namespace

CASE(event_kinds) {
  const Served served;
  const uint64_t before = monotonic_ns();
  Setup setup;
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, setup.program(kEmpty), kOneBlock, nullptr, 0, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  const emu_telemetry now = telemetry(setup.device);
  OK(install(setup.device, make_image("1.1.0", 1)));
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_rollback(setup.device));
  OK(api->firmware_activate(setup.device));
  OK(api->firmware_rollback(setup.device));
  const std::vector<emu_event> events = events_of(setup.device);
  CHECK((kinds_of(events) == Kinds{EMU_EVENT_BOOT, EMU_EVENT_FIRMWARE_WRITTEN, EMU_EVENT_FIRMWARE_REFUSED,
                                   EMU_EVENT_FIRMWARE_ACTIVATED, EMU_EVENT_FIRMWARE_ROLLED_BACK}));
  CHECK(events[0].ticks == 0 && events[0].nanoseconds < before && events[1].nanoseconds > before);
  CHECK(events[1].ticks == now.device_ticks && now.device_ticks > 0);
  SAYS(events[0].text, "started 1.0.0 from slot 0");
  SAYS(events[1].text, "wrote 1.1.0 to slot 1");
  CHECK(events[2].status == EMU_ERROR_BAD_FIRMWARE);
  CHECK(events_of(setup.device, events.back().sequence).empty());
}

CASE(event_of_a_fault) {
  const Served served;
  emu_device* watching = open_device();
  int client = 0;
  {
    Setup setup;
    page_fault(setup);
    client = getpid();
  }
  const std::vector<emu_event> events = events_of(watching, 1);
  CHECK((kinds_of(events) == Kinds{EMU_EVENT_FAULT, EMU_EVENT_CONTEXT_LOST}));
  for (const emu_event& event : events) {
    CHECK(event.status == EMU_ERROR_PAGE_FAULT && event.scope == EMU_SCOPE_CONTEXT && event.process == client);
    CHECK(event.context != 0);
    SAYS(event.text, "0x123456");
  }
  CHECK(events[0].command == 1 && events[0].queue != UINT32_MAX);
}

CASE(event_of_a_killed_client) {
  const Served served;
  Client client([] {
    const Setup setup;
    std::puts("up");
    std::fflush(stdout);
    pause();
  });
  CHECK(client.line() == "up");
  kill(client.pid(), SIGKILL);
  const int process = client.pid();
  client.wait();
  emu_device* device = open_device();
  CHECK(eventually([&] { return events_of(device).size() == 2; }));
  const emu_event event = events_of(device)[1];
  CHECK(event.kind == EMU_EVENT_CLIENT_LOST && event.process == process);
  SAYS(event.text, "left 1 contexts behind");
}

CASE(event_log_is_bounded) {
  const Served served;
  emu_device* device = open_device();
  for (int i = 0; i < 1500; ++i) REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(device));
  uint64_t dropped = 0;
  const std::vector<emu_event> events = events_of(device, 0, &dropped);
  CHECK(events.size() == 1024 && dropped == 1501 - 1024);
  CHECK(events.front().sequence == dropped + 1 && events.back().sequence == 1501);
  CHECK(events_of(device, 1500, &dropped).size() == 1 && dropped == 0);
  CHECK(events_of(device, UINT64_MAX, &dropped).empty() && dropped == 0);
}

/* Whoever makes events without end, by resets of a queue that waits, has only such events forgotten. */
CASE(event_of_the_device_is_not_crowded_out) {
  const Served served;
  Setup setup;
  emu_fence* fence = nullptr;
  OK(api->fence_create(setup.context, &fence));
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(setup.device));
  for (int i = 0; i < 1100; ++i) {
    OK(api->queue_wait_fence(setup.queue, fence, 1, 0, nullptr));
    OK(api->queue_reset(setup.queue));
  }
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(setup.device));
  uint64_t dropped = 0;
  const std::vector<emu_event> events = events_of(setup.device, 0, &dropped);
  CHECK(events.size() == 1024 + 3 && dropped == 1100 - 1024);
  CHECK(events[0].kind == EMU_EVENT_BOOT && events[1].kind == EMU_EVENT_FIRMWARE_REFUSED && events[1].sequence == 2);
  CHECK(events[2].kind == EMU_EVENT_RESET && events[2].sequence == 3 + dropped);
  CHECK(events.back().kind == EMU_EVENT_FIRMWARE_REFUSED && events.back().sequence == 1103);
}

/* Nor by contexts, however many a reset makes lose what they have. */
CASE(event_of_the_device_is_not_crowded_out_by_losses) {
  const Served served;
  emu_device* device = open_device();
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(device));
  emu_context* contexts[constants::kClientContexts];
  size_t resets = 0, lost = 0;
  for (; lost <= 1024; ++resets, lost += std::size(contexts)) {
    for (emu_context*& context : contexts) OK(api->context_create(device, &context));
    OK(api->device_reset(device));
    for (emu_context* context : contexts) OK(api->context_destroy(context));
  }
  uint64_t dropped = 0;
  const std::vector<emu_event> events = events_of(device, 0, &dropped);
  CHECK(events.size() == 1024 + 2 + 2 * resets && dropped == lost - 1024);
  CHECK(events[0].kind == EMU_EVENT_BOOT && events[0].sequence == 1);
  CHECK(events[1].kind == EMU_EVENT_FIRMWARE_REFUSED && events[1].sequence == 2);
  const std::vector<uint32_t> kinds = kinds_of(events);
  CHECK(size_t(std::count(kinds.begin(), kinds.end(), EMU_EVENT_RESET)) == resets);
}

CASE(event_text_is_for_its_user) {
  const Served served({"--group", "nogroup"});
  {
    const Client faulting([] {
      Setup setup;
      page_fault(setup);
    });
  }
  const Client other([] {
    emu_device* device = open_device();
    for (const emu_event& event : events_of(device, 1)) CHECK(event.process != 0 && event.text[0] == '\0');
    SAYS(events_of(device)[0].text, "started 1.0.0");
    Setup setup;
    page_fault(setup); // its own it may read
    SAYS(events_of(device).back().text, "0x123456");
  }, 65534);
}

/* Numbers of processes come again, and are seen as 0 from another PID namespace: the user is what counts. */
CASE(event_text_outlives_its_process) {
  if (geteuid() != 0) skip("it takes root to be two users");
  const Served served({"--group", "nogroup"});
  const Client same([] {
    {
      Setup setup;
      page_fault(setup);
    }
    CHECK(setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    emu_device* device = open_device();
    const auto events = events_of(device, 1);
    CHECK(!events.empty());
    for (const emu_event& event : events) CHECK(event.process == getpid() && event.text[0] == '\0');
  });
}

CASE(event_among_activities) {
  const Served served;
  Setup setup;
  OK(api->activity_enable(setup.context, 1));
  emu_program* empty = setup.program(kEmpty);
  const auto launch = [&] {
    uint64_t sequence = 0;
    OK(api->queue_launch(setup.queue, empty, kOneBlock, nullptr, 0, 0, &sequence));
    OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  };
  launch();
  OK(install(setup.device, make_image("1.1.0", 1)));
  launch();
  emu_activity records[8];
  size_t count = 0;
  uint64_t dropped = 0;
  OK(api->activity_read(setup.context, records, 8, &count, &dropped));
  CHECK(count == 3 && dropped == 0);
  const emu_activity& firmware = records[1];
  CHECK(firmware.kind == EMU_ACTIVITY_FIRMWARE && firmware.queue == UINT32_MAX && firmware.command == 2);
  CHECK(std::string(firmware.program) == "wrote 1.1.0 to slot 1");
  CHECK(firmware.start_ticks == records[0].end_ticks && firmware.end_ticks == records[2].start_ticks);
  CHECK(firmware.start_ns >= records[0].end_ns && firmware.end_ns <= records[2].start_ns);
}

CASE(reset_of_the_device) {
  const Served served;
  Client other([] {
    Setup setup;
    const int64_t steps = INT64_MAX;
    uint64_t sequence = 0;
    OK(api->queue_launch(setup.queue, setup.program(kCount), kOneBlock, &steps, sizeof steps, 0, &sequence));
    std::puts("up");
    std::fflush(stdout);
    REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
    SAYS(last_error().cause, "the device was reset by process");
    CHECK(last_error().scope == EMU_SCOPE_DEVICE);
    uint64_t address = 0;
    REFUSED(EMU_ERROR_STALE_HANDLE, api->memory_alloc(setup.context, 1, &address));
    REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_fill(setup.copies, 0, 0, 1, 0, nullptr));
    Setup next; // a new context works
    next.alloc(65536);
  });
  CHECK(other.line() == "up");
  emu_device* device = open_device();
  OK(api->device_reset(device));
  CHECK(other.wait() == 0);
  const std::vector<emu_event> events = events_of(device, 1);
  CHECK((kinds_of(events) == Kinds{EMU_EVENT_RESET, EMU_EVENT_CONTEXT_LOST, EMU_EVENT_BOOT}));
  CHECK(events[0].process == getpid() && events[1].process != getpid() && events[1].scope == EMU_SCOPE_DEVICE);
}
