/* Cases about fences: across contexts, devices and processes, and what is told when one will not be signalled. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "harness.h"

using namespace emu::test;

namespace {

constexpr uint64_t kSoon = 20'000'000'000; // a test that hangs fails
constexpr uint64_t kMoment = 20'000'000;

emu_fence* make(emu_context* context) {
  emu_fence* fence = nullptr;
  OK(api->fence_create(context, &fence));
  return fence;
}

emu_fence_token token_of(emu_fence* fence, uint32_t flags = 0) {
  emu_fence_token token{};
  OK(api->fence_export(fence, flags, &token));
  return token;
}

emu_fence* import(emu_context* context, const emu_fence_token& token) {
  emu_fence* fence = nullptr;
  OK(api->fence_import(context, &token, &fence));
  return fence;
}

uint64_t value_of(emu_fence* fence) {
  uint64_t value = 0;
  OK(api->fence_value(fence, &value));
  return value;
}

std::string text(const emu_fence_token& token) {
  char out[64];
  std::snprintf(out, sizeof out, "%llx %llx", static_cast<unsigned long long>(token.part[0]),
                static_cast<unsigned long long>(token.part[1]));
  return out;
}

emu_fence_token parse(const std::string& line) {
  unsigned long long first = 0, second = 0;
  CHECK(std::sscanf(line.c_str(), "%llx %llx", &first, &second) == 2);
  return {{first, second}};
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

uint64_t ticks_of(emu_context* context, emu_queue* queue) {
  void* pointer = nullptr;
  OK(api->host_alloc(context, sizeof(emu_timestamp), &pointer));
  uint64_t last = 0;
  OK(api->queue_timestamp(queue, pointer, 0, &last));
  OK(api->queue_synchronize(queue, last, kSoon));
  const uint64_t ticks = static_cast<emu_timestamp*>(pointer)->ticks;
  OK(api->host_free(context, pointer));
  return ticks;
}

/* A fence that a client of its own may signal, and what this process then waits for. */
struct Partner {
  Partner(const std::function<void(Setup&, emu_fence*)>& work)
      : client([work] {
          static Setup* const setup = new Setup; // the work may end the process
          emu_fence* const fence = make(setup->context);
          say(text(token_of(fence)));
          work(*setup, fence);
        }),
        token(parse(client.line())) {}
  Client client;
  const emu_fence_token token;
};

} // namespace

CASE(fence_across_contexts) {
  Setup one;
  emu_context* other = nullptr;
  emu_queue* queue = nullptr;
  OK(api->context_create(one.device, &other));
  OK(api->queue_create(other, EMU_QUEUE_COPY, 0, &queue));
  emu_fence* fence = make(one.context);
  emu_fence* same = import(other, token_of(fence));
  uint64_t address = 0, sequence = 0;
  OK(api->memory_alloc(other, 65536, &address));
  OK(api->queue_wait_fence(queue, same, 7, 0, nullptr));
  OK(api->queue_fill(queue, address, 1, 1, 0, &sequence));
  OK(api->queue_signal_fence(one.queue, fence, 6, 0, nullptr));
  OK(api->queue_synchronize(one.queue, 1, kSoon));
  CHECK(value_of(same) == 6);
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(queue, sequence, kMoment)); // and the engine sleeps
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(same, 7, kMoment));
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(same, 7, 0));
  OK(api->queue_signal_fence(one.queue, fence, 7, 0, nullptr));
  OK(api->queue_synchronize(queue, sequence, kSoon));
  OK(api->fence_synchronize(same, 7, kSoon));
  // It never goes back, and the host signals too.
  OK(api->fence_signal(fence, 3));
  CHECK(value_of(fence) == 7 && value_of(same) == 7);
  OK(api->queue_wait_fence(queue, same, 9, 0, &sequence));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(queue, sequence, kMoment)); // asleep again, with nobody beside it
  OK(api->activity_enable(other, 1));
  OK(api->fence_signal(fence, 9));
  // Who waits for the queue would ring for it again and again: this looks at its records alone.
  CHECK(eventually([&] {
    emu_activity record{};
    size_t count = 0;
    uint64_t dropped = 0;
    OK(api->activity_read(other, &record, 1, &count, &dropped));
    return count == 1 && record.command == sequence && record.status == EMU_OK;
  }, 5));
  OK(api->fence_signal(fence, UINT64_MAX));
  OK(api->fence_synchronize(same, UINT64_MAX, kSoon));
  OK(api->context_destroy(other));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->fence_value(same, &sequence));
}

CASE(fence_rights) {
  Setup one;
  emu_context* other = nullptr;
  emu_queue* queue = nullptr;
  OK(api->context_create(one.device, &other));
  OK(api->queue_create(other, EMU_QUEUE_COMPUTE, 0, &queue));
  emu_fence* fence = make(one.context);
  emu_fence* waits = import(other, token_of(fence));
  emu_fence* signals = import(other, token_of(fence, EMU_FENCE_MAY_SIGNAL));
  emu_fence_token token{};
  REFUSED(EMU_ERROR_PERMISSION, api->fence_signal(waits, 1));
  REFUSED(EMU_ERROR_PERMISSION, api->fence_export(waits, EMU_FENCE_MAY_SIGNAL, &token));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->fence_export(waits, 2, &token));
  OK(api->fence_export(waits, 0, &token));
  OK(api->fence_signal(signals, 1));
  CHECK(value_of(waits) == 1);
  token.part[0] ^= 1;
  emu_fence* none = nullptr;
  REFUSED(EMU_ERROR_STALE_HANDLE, api->fence_import(other, &token, &none));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_wait_fence(queue, fence, 1, 0, nullptr)); // of another context
  // By a command it is the end of the context, which broke the rule.
  OK(api->queue_signal_fence(queue, waits, 2, 0, nullptr));
  REFUSED(EMU_ERROR_ILLEGAL_COMMAND, api->queue_synchronize(queue, 1, kSoon));
  SAYS(last_error().cause, "may only wait");
  // That context could signal it, and is lost.
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(fence, 2, kSoon));
  SAYS(last_error().cause, "a context of process " + std::to_string(getpid()));
  OK(api->fence_synchronize(fence, 1, kSoon)); // what was reached stays reached
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_signal(fence, 2));
}

/* A process signals with its queue, another one's queue and host wait. */
CASE(fence_across_processes) {
  const Served device;
  CHECK(mkfifo((folder() + "/go").c_str(), 0600) == 0);
  Partner partner([](Setup& setup, emu_fence* fence) {
    emu_program* count = setup.program(kCount);
    const int64_t steps = 3'000'000;
    for (uint64_t value = 1; value <= 3; ++value) {
      OK(api->queue_launch(setup.queue, count, kOneBlock, &steps, sizeof steps, 0, nullptr));
      OK(api->queue_signal_fence(setup.queue, fence, value, 0, nullptr));
    }
    OK(api->queue_synchronize(setup.queue, 6, kSoon));
    say(std::to_string(ticks_of(setup.context, setup.queue)));
    std::ifstream(folder() + "/go").get(); // a FIFO: until the other one has seen it
    OK(api->context_destroy(setup.context));
  });
  Setup setup;
  emu_fence* fence = import(setup.context, partner.token);
  const uint64_t address = setup.alloc(65536);
  OK(api->queue_wait_fence(setup.copies, fence, 3, 0, nullptr));
  OK(api->queue_fill(setup.copies, address, 1, 1, 0, nullptr));
  OK(api->queue_synchronize(setup.copies, 2, kSoon));
  OK(api->fence_synchronize(fence, 3, kSoon));
  const uint64_t signalled = std::stoull(partner.client.line());
  // On the device clock too: the fill, 1001 ticks, began when the third launch was done.
  CHECK(ticks_of(setup.context, setup.copies) == signalled + 1001);
  std::ofstream(folder() + "/go") << '\n';
  CHECK(partner.client.wait() == 0);
  // It was left in order, and nobody is left who may signal.
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(fence, 4, kSoon));
  SAYS(last_error().cause, "nobody is left");
  OK(api->fence_synchronize(fence, 3, 0));
}

namespace {

/* The signaller is gone: whoever waits is told within a moment, host and queue. */
void signaller_is_gone(const std::function<void(Setup&)>& go, const std::string& why) {
  const Served device;
  CHECK(mkfifo((folder() + "/go").c_str(), 0600) == 0);
  Partner partner([&](Setup& setup, emu_fence*) {
    std::ifstream(folder() + "/go").get();
    go(setup);
  });
  Setup setup;
  emu_context* spared = nullptr;
  OK(api->context_create(setup.device, &spared));
  emu_fence* fence = import(setup.context, partner.token);
  emu_fence* hosts = import(spared, partner.token);
  OK(api->queue_wait_fence(setup.queue, fence, 1, 0, nullptr));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(setup.queue, 1, kMoment));
  std::thread teller([&] {
    usleep(50'000);
    std::ofstream(folder() + "/go") << '\n';
  });
  const auto start = std::chrono::steady_clock::now();
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(hosts, 1, UINT64_MAX));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  SAYS(last_error().cause, "process " + std::to_string(partner.client.pid()));
  SAYS(last_error().cause, why);
  CHECK(std::strstr(last_error().cause, "0x") == nullptr);
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->queue_synchronize(setup.queue, 1, kSoon));
  CHECK(last_error().scope == EMU_SCOPE_QUEUE && last_error().command == 1);
  SAYS(last_error().cause, why);
  OK(api->queue_reset(setup.queue));
  const uint64_t address = setup.alloc(65536);
  uint64_t sequence = 0;
  OK(api->queue_fill(setup.queue, address, 1, 1, 0, &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, kSoon));
  teller.join();
  partner.client.wait();
  emu_fence* again = make(spared);
  OK(api->fence_signal(again, 1));
  OK(api->context_destroy(spared));
}

} // namespace

CASE(fence_signaller_is_killed) {
  signaller_is_gone([](Setup& setup) {
    // With a launch under way that would go on for minutes.
    emu_program* count = setup.program(kCount);
    const int64_t forever = INT64_MAX;
    OK(api->queue_launch(setup.queue, count, kOneBlock, &forever, sizeof forever, 0, nullptr));
    usleep(20'000);
    kill(getpid(), SIGKILL);
  }, "ended");
}

CASE(fence_signaller_faults) {
  signaller_is_gone([](Setup& setup) {
    OK(api->queue_fill(setup.queue, 8, 1, 1, 0, nullptr));
    REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, 1, kSoon));
  }, "by PAGE_FAULT"); // and not where, which is for its user
}

/* A signal that a queue was to give and will not; the context that may signal is there. */
CASE(fence_signal_is_given_up) {
  Setup setup;
  emu_context* other = nullptr;
  OK(api->context_create(setup.device, &other));
  emu_queue* never = setup.make_queue(EMU_QUEUE_COPY);
  emu_fence *lost = make(setup.context), *fine = make(setup.context), *cancelled = make(setup.context);
  emu_fence *waits = import(other, token_of(lost)), *goes_on = import(other, token_of(fine));
  // By a reset of the queue.
  OK(api->queue_wait(setup.queue, never, 1, nullptr));
  OK(api->queue_signal_fence(setup.queue, lost, 1, 0, nullptr));
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(waits, 1, kMoment));
  OK(api->queue_reset(setup.queue));
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(waits, 1, UINT64_MAX));
  SAYS(last_error().cause, "queue " + std::to_string(api->queue_id(setup.queue)));
  // By the loss of the queue, here to that fence; the fence that it does not name is whole.
  emu_fence* next = make(setup.context);
  emu_fence* waits_too = import(other, token_of(next));
  OK(api->queue_wait(setup.queue, never, 1, nullptr));
  OK(api->queue_wait_fence(setup.queue, lost, 2, 0, nullptr));
  OK(api->queue_signal_fence(setup.queue, next, 1, 0, nullptr));
  OK(api->queue_fill(never, setup.alloc(65536), 1, 1, 0, nullptr));
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(waits_too, 1, UINT64_MAX));
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(goes_on, 1, kMoment));
  OK(api->fence_signal(fine, 1));
  OK(api->fence_synchronize(goes_on, 1, kSoon));
  // One that is cancelled is given.
  uint64_t first = 0;
  emu_queue* queue = setup.make_queue(EMU_QUEUE_COMPUTE);
  OK(api->queue_wait(queue, never, 2, nullptr));
  OK(api->queue_signal_fence(queue, cancelled, 1, 0, nullptr));
  OK(api->queue_cancel(queue, 1, 0, &first));
  OK(api->fence_synchronize(cancelled, 1, kSoon));
  OK(api->context_destroy(other));
}

/* A context that is destroyed does not give what its queues were to signal, though another could. */
CASE(fence_signal_goes_with_its_context) {
  Setup setup;
  emu_context* signaller = nullptr;
  emu_queue *queue = nullptr, *never = nullptr;
  OK(api->context_create(setup.device, &signaller));
  OK(api->queue_create(signaller, EMU_QUEUE_COMPUTE, 0, &queue));
  OK(api->queue_create(signaller, EMU_QUEUE_COPY, 0, &never));
  emu_fence* fence = make(setup.context);
  emu_fence_token token{};
  OK(api->fence_export(fence, EMU_FENCE_MAY_SIGNAL, &token));
  emu_fence* theirs = import(signaller, token);
  OK(api->queue_wait(queue, never, 1, nullptr));
  OK(api->queue_signal_fence(queue, theirs, 1, 0, nullptr));
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(fence, 1, kMoment));
  OK(api->context_destroy(signaller));
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(fence, 1, kSoon));
}

/* One that may only wait harms nobody by its end. */
CASE(fence_waiter_is_killed) {
  const Served device;
  CHECK(mkfifo((folder() + "/go").c_str(), 0600) == 0);
  Client waiter([&] {
    std::string line;
    std::getline(std::ifstream(folder() + "/go"), line);
    static Setup* const setup = new Setup;
    emu_fence* fence = import(setup->context, parse(line));
    OK(api->queue_wait_fence(setup->queue, fence, 1, 0, nullptr));
    kill(getpid(), SIGKILL);
  });
  Setup setup;
  emu_fence* fence = make(setup.context);
  std::ofstream(folder() + "/go") << text(token_of(fence)) << '\n';
  waiter.wait();
  REFUSED(EMU_ERROR_TIMEOUT, api->fence_synchronize(fence, 1, 300'000'000));
  OK(api->fence_signal(fence, 1));
  OK(api->fence_synchronize(fence, 1, kSoon));
}

/* Two devices: each has its clock, and a fence orders them. */
CASE(fence_across_devices) {
  const Served served({"--devices", "2"});
  const Setup first, second(1);
  emu_fence* fence = make(first.context);
  emu_fence* there = import(second.context, token_of(fence));
  const uint64_t here = first.alloc(1 << 20), address = second.alloc(65536);
  uint64_t sequence = 0;
  OK(api->queue_wait_fence(second.queue, there, 1, 0, nullptr));
  OK(api->queue_fill(second.queue, address, 1, 32, 0, &sequence));
  REFUSED(EMU_ERROR_TIMEOUT, api->queue_synchronize(second.queue, sequence, kMoment));
  OK(api->queue_fill(first.queue, here, 1, 1 << 20, 0, nullptr)); // 33768 ticks
  OK(api->queue_signal_fence(first.queue, fence, 1, 0, nullptr));
  OK(api->queue_synchronize(second.queue, sequence, kSoon));
  CHECK(ticks_of(first.context, first.queue) == 33768);
  CHECK(ticks_of(second.context, second.queue) == 33768 + 1001);
  const emu_telemetry now = telemetry(second.device);
  CHECK(now.spent_waiting_ticks == 33768 && now.spent_copy_ticks == 1001);
}

/* Ping-pong between two processes' queues, so that every wake-up that is lost is a hang. */
CASE(fence_ping_pong) {
  const Served device;
  constexpr uint64_t kRounds = 300;
  CHECK(mkfifo((folder() + "/go").c_str(), 0600) == 0);
  const auto play = [&](Setup& setup, emu_fence* mine, emu_fence* theirs, uint64_t lead) {
    const uint64_t address = setup.alloc(65536);
    uint64_t sequence = 0;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      OK(api->queue_wait_fence(setup.queue, theirs, round - lead, 0, nullptr));
      OK(api->queue_fill(setup.queue, address, 1, 1, 0, nullptr));
      OK(api->queue_signal_fence(setup.queue, mine, round, 0, &sequence));
      if (round % 10 == 0) OK(api->queue_synchronize(setup.queue, sequence, kSoon));
    }
    OK(api->fence_synchronize(theirs, kRounds, kSoon));
  };
  Partner partner([&](Setup& setup, emu_fence* fence) {
    std::string line;
    std::getline(std::ifstream(folder() + "/go"), line);
    emu_fence* theirs = import(setup.context, parse(line));
    play(setup, fence, theirs, 0);
    std::ifstream(folder() + "/go").get(); // until the other one has seen the end
  });
  Setup setup;
  emu_fence* mine = make(setup.context);
  emu_fence* theirs = import(setup.context, partner.token);
  std::ofstream(folder() + "/go") << text(token_of(mine)) << '\n';
  play(setup, mine, theirs, 1);
  std::ofstream(folder() + "/go") << '\n';
  CHECK(partner.client.wait() == 0);
}

CASE(fence_is_lost_with_emud) {
  static const Served* const device = new Served; // it is killed below
  static Setup* const setup = new Setup;
  emu_fence* fence = make(setup->context);
  std::thread killer([&] {
    usleep(50'000);
    kill(device->pid(), SIGKILL);
  });
  REFUSED(EMU_ERROR_DEVICE_LOST, api->fence_synchronize(fence, 1, UINT64_MAX));
  killer.join();
}

/* A queue is destroyed by itself, with all that it holds: nobody waits for what nobody will do. */
CASE(fence_that_a_destroyed_queue_waits_for) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  emu_fence *never = make(setup.context), *to_signal = make(setup.context);
  uint64_t waits = 0, done = 0, behind = 0;
  OK(api->queue_fill(setup.queue, address, 1, 16, 0, &done));
  OK(api->queue_synchronize(setup.queue, done, kSoon));
  OK(api->queue_wait_fence(setup.queue, never, 1, 0, nullptr));
  OK(api->queue_signal_fence(setup.queue, to_signal, 7, 0, &behind));
  OK(api->queue_wait(setup.copies, setup.queue, done, nullptr));
  OK(api->queue_wait(setup.copies, setup.queue, behind, &waits));
  OK(api->queue_destroy(setup.queue));
  REFUSED(EMU_ERROR_FENCE_BROKEN, api->fence_synchronize(to_signal, 7, kSoon));
  SAYS(last_error().cause, "was lost, reset or destroyed");
  REFUSED(EMU_ERROR_QUEUE_LOST, api->queue_synchronize(setup.copies, waits, kSoon));
  SAYS(last_error().cause, "was lost, reset or destroyed");
  OK(api->queue_synchronize(setup.copies, waits - 1, 0));
  OK(api->queue_reset(setup.copies));
  // And so is what runs.
  emu_queue* queue = setup.make_queue(EMU_QUEUE_COMPUTE);
  const int64_t forever = INT64_MAX;
  OK(api->queue_launch(queue, setup.program(kCount), kOneBlock, &forever, sizeof forever, 0, &behind));
  OK(api->queue_destroy(queue));
  OK(api->queue_fill(setup.copies, address, 2, 16, 0, &done));
  OK(api->queue_synchronize(setup.copies, done, kSoon));
}

/* What waits for a queue starts after it on the device clock, also where the queue is gone when it gets its turn. */
CASE(fence_of_a_destroyed_queue_is_on_the_clock) {
  Setup setup;
  OK(api->activity_enable(setup.context, 1));
  const uint64_t address = setup.alloc(65536);
  emu_fence* const gate = make(setup.context);
  const int64_t steps = 100'000;
  uint64_t long_one = 0, filled = 0;
  OK(api->queue_launch(setup.queue, setup.program(kCount), kOneBlock, &steps, sizeof steps, 0, &long_one));
  OK(api->queue_wait_fence(setup.copies, gate, 1, 0, nullptr));
  OK(api->queue_wait(setup.copies, setup.queue, long_one, nullptr));
  OK(api->queue_fill(setup.copies, address, 1, 16, 0, &filled));
  OK(api->queue_synchronize(setup.queue, long_one, kSoon));
  const uint32_t copies = api->queue_id(setup.copies);
  OK(api->queue_destroy(setup.queue));
  OK(api->fence_signal(gate, 1));
  OK(api->queue_synchronize(setup.copies, filled, kSoon));
  std::vector<emu_activity> all(16);
  for (emu_activity& record : all) record.size = sizeof record;
  size_t count = 0;
  uint64_t dropped = 0, end = 0, start = 0;
  OK(api->activity_read(setup.context, all.data(), all.size(), &count, &dropped));
  for (size_t i = 0; i < count; ++i) {
    if (all[i].kind == EMU_ACTIVITY_LAUNCH) end = all[i].end_ticks;
    if (all[i].queue == copies && all[i].command == filled) start = all[i].start_ticks;
  }
  CHECK(end > 100'000 && start >= end);
}
