/* Cases about links: copies between the contexts of one process on several devices, what they cost, and what is told
 * when one is down. */
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "inject.h"
#include "raw.h"
#include "ring.h"
#include "under_way.h"

using namespace emu;
using namespace emu::test;

namespace {

constexpr uint64_t kSoon = 20'000'000'000;
constexpr uint64_t kMiB = 1 << 20;

/* With memory to copy. */
struct On : Setup {
  explicit On(uint32_t index) : Setup(index), address(alloc(kMiB)) {}
  void fill(uint8_t value) const { finish(queue, emu::test::fill(queue, address, value, kMiB)); }
  std::vector<uint8_t> read(uint64_t bytes) const {
    auto* const host = pinned(bytes);
    uint64_t sequence = 0;
    OK(api->queue_copy_from_device(copies, host, address, bytes, 0, &sequence));
    finish(copies, sequence);
    const std::vector<uint8_t> out(host, host + bytes);
    OK(api->host_free(context, host));
    return out;
  }
  emu_telemetry telemetry() const { return emu::test::telemetry(device); }
  const uint64_t address;
};

emu_link_info link_of(emu_device* device, uint32_t index) {
  emu_link_info info{};
  info.size = sizeof info;
  OK(api->link_info(device, index, &info));
  CHECK(info.size == sizeof info && info.index == index);
  return info;
}

std::vector<emu_link_info> links_of(emu_device* device) {
  std::vector<emu_link_info> out;
  emu_link_info info{};
  for (uint32_t index = 0;; ++index) {
    info.size = sizeof info;
    if (api->link_info(device, index, &info) != EMU_OK) break;
    out.push_back(info);
  }
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->link_info(device, uint32_t(out.size()), &info));
  return out;
}

bool all_are(const std::vector<uint8_t>& bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [=](uint8_t byte) { return byte == value; });
}

} // namespace

CASE(link_topology) {
  {
    Setup alone;
    CHECK(links_of(alone.device).empty());
  }
  const Served served({"--devices", "8"});
  emu_device* device = nullptr;
  OK(api->device_open(5, &device));
  const auto links = links_of(device);
  CHECK(links.size() == 16);
  for (const emu_link_info& link : links) {
    CHECK(link.device[0] < link.device[1] && link.device[1] < 8 && link.is_up == 1);
    const bool near = link.device[0] / 4 == link.device[1] / 4;
    CHECK(near || link.device[0] + 4 == link.device[1]);
    CHECK(link.bytes_per_tick == (near ? 16 : 8) && link.latency_ticks == (near ? 500 : 800));
  }
  api->device_close(device);
}

/* The bytes, the ticks on both clocks and on the link, and the counters of all three. */
CASE(link_copy) {
  const Served served({"--devices", "2"});
  On here(0), there(1);
  here.fill(7);                        // compute engine of device 0: 33768 ticks
  const uint64_t filled = 1000 + kMiB / 32;
  const uint64_t took = 500 + (100'000 + 15) / 16;
  OK(api->activity_enable(here.context, 1));
  uint64_t sequence = 0;
  OK(api->queue_copy_peer(here.queue, there.context, there.address, here.context, here.address, 100'000, 42,
                          &sequence));
  OK(api->queue_synchronize(here.queue, sequence, kSoon));
  emu_activity records[2];
  size_t count = 0;
  uint64_t dropped = 0;
  OK(api->activity_read(here.context, records, 2, &count, &dropped));
  CHECK(count == 1 && records[0].kind == EMU_ACTIVITY_COPY_PEER && records[0].correlation == 42);
  CHECK(records[0].bytes == 100'000);
  CHECK(records[0].start_ticks == filled && records[0].end_ticks == filled + took);
  CHECK(here.telemetry().device_ticks == filled + took && there.telemetry().device_ticks == filled + took);
  CHECK(here.telemetry().bytes_from_device == 100'000 && there.telemetry().bytes_to_device == 100'000);
  CHECK(here.telemetry().from_device_ticks == took && there.telemetry().to_device_ticks == took);
  CHECK(there.telemetry().copy_engine_ticks == took && here.telemetry().copy_engine_ticks == 0);
  // Back, by a queue of the target's: it pulls.
  OK(api->queue_copy_peer(here.copies, here.context, here.address, there.context, there.address, 16, 0, &sequence));
  OK(api->queue_synchronize(here.copies, sequence, kSoon));
  const emu_link_info link = link_of(there.device, 0);
  CHECK(link.device[0] == 0 && link.device[1] == 1 && link.errors == 0);
  CHECK(link.copies[0] == 1 && link.bytes[0] == 100'000 && link.busy_ticks[0] == took);
  CHECK(link.copies[1] == 1 && link.bytes[1] == 16 && link.busy_ticks[1] == 501);
  const auto bytes = there.read(100'001);
  CHECK(bytes[100'000] == 0 && all_are({bytes.begin(), bytes.end() - 1}, 7));
}

/* One way of a link carries one copy at a time; the ways do not hold each other up. */
CASE(link_is_shared) {
  const Served served({"--devices", "3"});
  On zero(0), one(1), two(2);
  const uint64_t took = 500 + kMiB / 16;
  uint64_t first = 0, second = 0, other = 0;
  OK(api->queue_copy_peer(zero.copies, one.context, one.address, zero.context, zero.address, kMiB, 0, &first));
  OK(api->queue_synchronize(zero.copies, first, kSoon));
  OK(api->queue_copy_peer(zero.queue, one.context, one.address, zero.context, zero.address, kMiB, 0, &second));
  OK(api->queue_synchronize(zero.queue, second, kSoon)); // another engine, and the same link: after the first
  CHECK(zero.telemetry().device_ticks == 2 * took && one.telemetry().device_ticks == 2 * took);
  OK(api->queue_copy_peer(zero.copies, two.context, two.address, zero.context, zero.address, kMiB, 0, &other));
  OK(api->queue_synchronize(zero.copies, other, kSoon)); // another link: at the same time as the second
  CHECK(zero.telemetry().device_ticks == 2 * took && two.telemetry().device_ticks == 2 * took);
  CHECK(link_of(zero.device, 0).busy_ticks[0] == 2 * took);
}

CASE(link_within_one_device) {
  Setup setup;
  emu_context* other = nullptr;
  uint64_t address = 0, sequence = 0;
  OK(api->context_create(setup.device, &other));
  OK(api->memory_alloc(other, 65536, &address));
  const uint64_t here = setup.alloc(65536);
  OK(api->queue_fill(setup.queue, here, 9, 65536, 0, nullptr));
  OK(api->queue_copy_peer(setup.queue, other, address, setup.context, here, 65536, 0, nullptr));
  OK(api->queue_fill(setup.queue, here, 0, 65536, 0, nullptr));
  OK(api->queue_copy_peer(setup.queue, setup.context, here, other, address, 65536, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, kSoon));
  auto* host = setup.pinned(65536);
  setup.from_device(host, here, 65536);
  CHECK(std::count(host, host + 65536, 9) == 65536);
  OK(api->context_destroy(other));
}

CASE(link_is_asked_for_well) {
  const Served served({"--devices", "6"});
  On zero(0), five(5);
  uint64_t sequence = 0;
  const auto copy = [&](emu_queue* queue, const On& to, const On& from, uint64_t bytes) {
    return api->queue_copy_peer(queue, to.context, to.address, from.context, from.address, bytes, 0, &sequence);
  };
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, copy(zero.queue, zero, zero, 1));
  SAYS(last_error().cause, "two contexts");
  const On one(1);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, copy(one.queue, five, zero, 1));
  SAYS(last_error().cause, "of one of the two");
  // Nothing is routed; it is told before anything is submitted.
  REFUSED(EMU_ERROR_NOT_SUPPORTED, copy(zero.queue, five, zero, 1));
  SAYS(last_error().cause, "no link joins the devices 0 and 5");
  // Bounds of both sides.
  OK(copy(zero.queue, one, zero, kMiB + 1));
  REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(zero.queue, sequence, kSoon));
  OK(copy(five.queue, one, five, 1)); // 1 and 5 have a link; 5 goes on, and so does 1
  OK(api->queue_synchronize(five.queue, sequence, kSoon));
}

/* The context that is copied to ends while copies are under way: no harm to the device, and a typed error. */
CASE(link_peer_is_destroyed) {
  const Served served({"--devices", "2"});
  for (int round = 0; round < 20; ++round) {
    const uint64_t copies = round == 0 ? 15'000 : 50; // so many are not done before the host has a turn for the end
    On here(0);
    {
      On there(1);
      for (uint64_t i = 0; i < copies; ++i) {
        OK(api->queue_copy_peer(here.copies, there.context, there.address, here.context, here.address, kMiB, 0,
                                nullptr));
      }
      usleep(useconds_t(round) * 200);
    }
    const emu_status status = api->queue_synchronize(here.copies, copies, kSoon);
    CHECK(status == EMU_OK || status == EMU_ERROR_QUEUE_LOST);
    if (round == 0) CHECK(status == EMU_ERROR_QUEUE_LOST);
    if (status == EMU_OK) continue;
    SAYS(last_error().cause, "a context that was lost or destroyed");
  }
  emud_still_serves();
}

/* A reset of one device is no reason to lose a context of another, which copies to it. */
CASE(link_peer_s_device_is_reset) {
  const Served served({"--devices", "2"});
  const On here(0), there(1);
  here.fill(7);
  uint64_t sequence = 0;
  emu_fence* fence = nullptr;
  OK(api->fence_create(here.context, &fence));
  OK(api->queue_wait_fence(here.copies, fence, 1, 0, nullptr));
  OK(api->queue_copy_peer(here.copies, there.context, there.address, here.context, here.address, 16, 0, &sequence));
  OK(api->device_reset(there.device));
  OK(api->fence_signal(fence, 1));
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(here.copies, sequence, kSoon));
  CHECK(last_error().scope == EMU_SCOPE_QUEUE && last_error().command == sequence);
  OK(api->queue_reset(here.copies));
  CHECK(all_are(here.read(kMiB), 7));
}

/* Requests of a context get their turn though two engines copy to it without a pause, and then the copies theirs. */
CASE(link_peer_gets_its_turn) {
  if (kThreadSanitizer) skip("a copy takes it a second");
  constexpr uint64_t bytes = 32 * kMiB, copies = 1000; // of milliseconds each
  constexpr int rounds = 20;
  const Served served({"--devices", "2"});
  On here(0), there(1);
  uint64_t from = 0, to = 0, sequence = 0, first = 0, meanwhile = 0;
  OK(api->memory_alloc(here.context, bytes, &from));
  OK(api->memory_alloc(there.context, bytes, &to));
  // In some it comes between two copies by chance, or the host is busy.
  for (int round = 0; round < rounds; ++round) {
    const uint64_t freed = there.alloc(65536), start = sequence;
    for (uint64_t i = 0; i < copies; ++i) {
      for (emu_queue* queue : {here.queue, here.copies}) {
        OK(api->queue_copy_peer(queue, there.context, to, here.context, from, bytes, 0, &sequence));
      }
    }
    OK(api->memory_free(there.context, freed));
    for (emu_queue* queue : {here.queue, here.copies}) {
      REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(queue, sequence, 0));
      uint64_t before = 0;
      OK(api->queue_completed(queue, &before));
      meanwhile += before - start;
      OK(api->queue_synchronize(queue, before + 2, kSoon)); // one was under way, perhaps
    }
    for (emu_queue* queue : {here.queue, here.copies}) {
      OK(api->queue_cancel(queue, 1, EMU_CANCEL_RUNNING, &first));
      OK(api->queue_synchronize(queue, sequence, kSoon));
    }
    CHECK(meanwhile < rounds * 30); // it takes a few a round
  }
}

/* A request that waits for a launch of its context holds up no copies to or from the context: here the launch goes on
 * until one comes. */
CASE(link_peer_waits_for_its_launch) {
  if (kThreadSanitizer) skip("the launch waits for what the copy writes");
  const Served served({"--devices", "2"});
  const On here(0), there(1);
  // Each turn counts to the i64 behind the mark.
  UnderWay under_way(there,
                     ".program until_zero\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i64 s1, 8\n const.i32 s2, 1\n"
                     " sstore.i32 s2, s0\n const.i64 s3, 8\n add.i64 s3, s0, s3\n loop s4, s1\n sload.i64 s5, s3\n"
                     " loop s6, s5\n end\n end\n exit\n");
  const uint64_t turns = under_way.mark() + 8, freed = there.alloc(65536);
  const auto copy_zeros_to = [&](uint64_t address) {
    uint64_t sequence = 0;
    OK(api->queue_copy_peer(here.copies, there.context, address, here.context, here.address, 8, 0, &sequence));
    finish(here.copies, sequence);
  };
  copy_zeros_to(there.address); // what it takes of requests is done
  finish(there.copies, fill(there.copies, turns, 0xff, 2));
  const uint64_t launched = under_way.launch(1'000'000);
  std::thread request([&] { OK(api->memory_free(there.context, freed)); });
  uint64_t held_up = 0; // once it waits, nothing of the context starts
  do held_up = fill(there.copies, there.address, 1, 16);
  while (api->queue_synchronize(there.copies, held_up, 100'000'000) == EMU_OK);
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(there.queue, launched, 0));
  copy_zeros_to(turns);
  request.join();
  finish(there.queue, launched);
  finish(there.copies, held_up);
}

CASE(link_down) {
  const Served served({"--devices", "3"});
  On zero(0), one(1), two(2);
  uint64_t sequence = 0;
  OK(api->link_set_up(zero.device, 0, 0));
  CHECK(link_of(one.device, 0).is_up == 0 && link_of(one.device, 1).is_up == 1);
  OK(api->queue_copy_peer(one.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  REFUSED(EMU_ERROR_LINK_DOWN, api->queue_synchronize(one.copies, sequence, kSoon));
  const emu_error error = last_error();
  SAYS(error.cause, "link 0 between the devices 1 and 0 is down");
  CHECK(error.scope == EMU_SCOPE_QUEUE && error.command == sequence);
  CHECK(link_of(zero.device, 0).errors == 1 && link_of(zero.device, 0).copies[1] == 0);
  // The other end goes on, and so do other links.
  OK(api->queue_copy_peer(zero.copies, two.context, two.address, zero.context, zero.address, 16, 0, &sequence));
  OK(api->queue_synchronize(zero.copies, sequence, kSoon));
  OK(api->link_set_up(one.device, 0, 1));
  OK(api->queue_reset(one.copies));
  OK(api->queue_copy_peer(one.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  OK(api->queue_synchronize(one.copies, sequence, kSoon));
  {
    On again(1);
    OK(api->queue_copy_peer(zero.copies, again.context, again.address, zero.context, zero.address, 16, 0, &sequence));
    OK(api->queue_synchronize(zero.copies, sequence, kSoon));
  }
  // Both ends have it in their logs.
  for (const On* end : {&zero, &one}) {
    emu_event events[64];
    size_t count = 0;
    uint64_t dropped = 0;
    OK(api->event_read(end->device, 0, events, 64, &count, &dropped));
    std::vector<int32_t> told;
    for (size_t i = 0; i < count; ++i) {
      if (events[i].kind == EMU_EVENT_LINK) told.push_back(events[i].status);
    }
    CHECK((told == std::vector<int32_t>{EMU_ERROR_LINK_DOWN, EMU_OK}));
  }
}

CASE(link_down_is_injected) {
  const Served served({"--devices", "2"});
  On zero(0), one(1);
  emu_fault fault = fault_of(EMU_FAULT_LINK_DOWN);
  fault.queue = api->queue_id(zero.copies);
  fault.skip = 1;
  inject(zero, fault);
  uint64_t sequence = 0;
  OK(api->queue_copy_peer(zero.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  OK(api->queue_synchronize(zero.copies, sequence, kSoon));
  OK(api->queue_copy_peer(zero.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  REFUSED(EMU_ERROR_LINK_DOWN, api->queue_synchronize(zero.copies, sequence, kSoon));
  CHECK(last_error().command == sequence && last_error().scope == EMU_SCOPE_QUEUE);
  CHECK(link_of(one.device, 0).is_up == 0);
  OK(api->queue_reset(zero.copies));
  OK(api->queue_copy_peer(zero.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  REFUSED(EMU_ERROR_LINK_DOWN, api->queue_synchronize(zero.copies, sequence, kSoon)); // it stays down
  OK(api->link_set_up(one.device, 0, 1));
  OK(api->queue_reset(zero.copies));
  OK(api->queue_copy_peer(zero.copies, one.context, one.address, zero.context, zero.address, 16, 0, &sequence));
  OK(api->queue_synchronize(zero.copies, sequence, kSoon));
}

CASE(link_state_is_the_owner_s) {
  if (geteuid() != 0) skip("it takes root to be two users");
  const Served served({"--devices", "2"});
  CHECK(chmod(node().c_str(), 0666) == 0);
  Client stranger([] {
    emu_device* opened = nullptr;
    OK(api->device_open(0, &opened));
    REFUSED(EMU_ERROR_PERMISSION, api->link_set_up(opened, 0, 0));
    SAYS(last_error().cause, "take a link down or up");
    CHECK(link_of(opened, 0).is_up == 1);
  }, 65534);
  CHECK(stranger.wait() == 0);
}

/* A token of another process's context opens nothing, however it was come by. */
CASE(link_peers_are_of_one_process) {
  const Served served;
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  Client victim([&] {
    const Descriptor socket = greeted();
    const uint64_t context = ask(socket.get(), RequestKind::context_create).reply.value;
    const Reply token = ask(socket.get(), RequestKind::peer_export, context).reply;
    CHECK(token.status == EMU_OK);
    std::printf("%llu %llu\n", static_cast<unsigned long long>(token.value),
                static_cast<unsigned long long>(token.count));
    std::fflush(stdout);
    char done;
    CHECK(read(pipes[0], &done, 1) == 1);
  });
  unsigned long long first = 0, second = 0;
  CHECK(std::sscanf(victim.line().c_str(), "%llu %llu", &first, &second) == 2);
  const Descriptor socket = greeted();
  const uint64_t context = ask(socket.get(), RequestKind::context_create, 0, 0, 1).reply.value;
  const Reply refused = ask(socket.get(), RequestKind::peer_import, context, first, second).reply;
  CHECK(refused.status == EMU_ERROR_PERMISSION);
  SAYS(refused.cause, "no other context of this process");
  const Reply own = ask(socket.get(), RequestKind::peer_export, context).reply;
  CHECK(ask(socket.get(), RequestKind::peer_import, context, own.value, own.count).reply.status ==
        EMU_ERROR_PERMISSION);
  // Of its own process it is good, over another connection too.
  const Descriptor more = greeted();
  const uint64_t other = ask(more.get(), RequestKind::context_create, 0, 0, 2).reply.value;
  CHECK(ask(more.get(), RequestKind::peer_import, other, own.value, own.count).reply.status == EMU_OK);
  CHECK(write(pipes[1], "x", 1) == 1);
}

/* Processes of other PID namespaces are seen as one, as these two are; their users are not. */
CASE(link_peers_are_of_one_user) {
  if (geteuid() != 0) skip("it takes root to be two users");
  const Served served;
  CHECK(chmod(node().c_str(), 0666) == 0);
  const Client both([] {
    const Descriptor socket = greeted();
    const uint64_t context = ask(socket.get(), RequestKind::context_create).reply.value;
    const Reply token = ask(socket.get(), RequestKind::peer_export, context).reply;
    CHECK(token.status == EMU_OK);
    CHECK(setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    const Descriptor other = greeted();
    const uint64_t theirs = ask(other.get(), RequestKind::context_create, 0, 0, 1).reply.value;
    const Reply refused = ask(other.get(), RequestKind::peer_import, theirs, token.value, token.count).reply;
    CHECK(refused.status == EMU_ERROR_PERMISSION);
    SAYS(refused.cause, "no other context of this process");
  });
}
