/* Cases about who is served when several want the device: shares between processes, measured on the device clock, and
 * priorities within one. */
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <list>
#include <numeric>
#include <string>
#include <vector>

#include "account.h"
#include "under_way.h"

using namespace emu::test;

namespace {

struct Ran {
  uint64_t start, end; // on the device clock
};

/* All clients submit what they want while the engine is held, so that they all want it from the same moment on. */
class Gate {
 public:
  Gate() { CHECK(pipe(pipes_) == 0); }
  void wait() const {
    char go;
    CHECK(read(pipes_[0], &go, 1) == 1);
  }
  void open(size_t clients) const {
    const std::string go(clients, '\n');
    CHECK(write(pipes_[1], go.data(), go.size()) == ssize_t(go.size()));
  }

 private:
  int pipes_[2];
};

/* A context with a launch that goes on until the end of the scope. */
class Held {
 public:
  Held() {
    UnderWay(setup_).launch(INT64_MAX);
  }

 private:
  Setup setup_;
};

std::vector<Ran> launches_of(emu_context* context, size_t expected) {
  std::vector<emu_activity> records(expected + 1);
  size_t count = 0;
  uint64_t dropped = 0;
  OK(api->activity_read(context, records.data(), records.size(), &count, &dropped));
  CHECK(count == expected && dropped == 0);
  std::vector<Ran> out;
  for (size_t i = 0; i < count; ++i) out.push_back({records[i].start_ticks, records[i].end_ticks});
  return out;
}

std::string file_of(size_t client) { return folder() + "/ran" + std::to_string(client); }

/* `launches` of `steps` in each of `contexts`; when each ran goes to the client's file. */
void want(const Gate& gate, size_t client, int contexts, size_t launches, int64_t steps) {
  gate.wait();
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  std::vector<std::pair<emu_context*, emu_queue*>> all;
  for (int i = 0; i < contexts; ++i) {
    auto& [context, queue] = all.emplace_back();
    OK(api->context_create(device, &context));
    OK(api->activity_enable(context, 1));
    OK(api->queue_create(context, EMU_QUEUE_COMPUTE, 0, &queue));
    emu_program* count = Setup::load(context, kCount);
    for (size_t n = 0; n < launches; ++n) {
      OK(api->queue_launch(queue, count, kOneBlock, &steps, sizeof steps, 0, nullptr));
    }
  }
  std::printf("submitted\n");
  std::fflush(stdout);
  std::ofstream file(file_of(client));
  for (const auto& [context, queue] : all) {
    OK(api->queue_synchronize(queue, launches, UINT64_MAX));
    for (const Ran& ran : launches_of(context, launches)) file << ran.start << ' ' << ran.end << '\n';
  }
}

std::vector<Ran> ran(size_t client) {
  std::ifstream file(file_of(client));
  std::vector<Ran> out;
  for (Ran one; file >> one.start >> one.end;) out.push_back(one);
  std::sort(out.begin(), out.end(), [](const Ran& a, const Ran& b) { return a.start < b.start; });
  CHECK(!out.empty());
  return out;
}

/* Device ticks that each client had while all of them wanted more. */
std::vector<uint64_t> shares(size_t clients) {
  std::vector<std::vector<Ran>> all;
  uint64_t begin = UINT64_MAX, end = UINT64_MAX;
  for (size_t i = 0; i < clients; ++i) {
    all.push_back(ran(i));
    begin = std::min(begin, all.back().front().start);
    end = std::min(end, all.back().back().end);
  }
  std::vector<uint64_t> out;
  for (const auto& one : all) {
    uint64_t ticks = 0;
    for (const Ran& ran : one) ticks += std::min(ran.end, end) - std::min(ran.start, end);
    out.push_back(ticks);
  }
  CHECK(std::accumulate(out.begin(), out.end(), uint64_t(0)) > (end - begin) * 99 / 100);
  return out;
}

constexpr int64_t kShort = 2'000, kLong = 200'000; // steps, a tick or two each

} // namespace

/* Seven processes that want little at a time, and one with four contexts of long launches: an eighth of the device for
 * each. */
CASE(fair_between_processes) {
  const Served device;
  const Gate gate;
  std::list<Client> clients;
  constexpr size_t kClients = 8;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      if (i == 0) want(gate, i, 4, 40, kLong);
      else want(gate, i, 1, 1500, kShort);
    });
  }
  {
    const Held held;
    gate.open(kClients);
    for (Client& client : clients) CHECK(client.line() == "submitted");
  }
  for (Client& client : clients) CHECK(client.wait() == 0);
  const std::vector<uint64_t> had = shares(kClients);
  const uint64_t all = std::accumulate(had.begin(), had.end(), uint64_t(0));
  for (size_t i = 0; i < kClients; ++i) {
    std::printf("client %zu: %.4f of the device\n", i, double(had[i]) / double(all));
  }
  for (const uint64_t one : had) CHECK(one * 8 > all * 9 / 10 && one * 8 < all * 11 / 10);
}

/* One that comes later gets its share from then on, and no more for the time before it came. */
CASE(fair_to_who_came_first) {
  const Served device;
  const Gate first_gate, second_gate, holder_gate;
  Client first([&] { want(first_gate, 0, 1, 20'000, 10 * kShort); }); // seconds, in which the others get their turn
  Client second([&] { want(second_gate, 1, 1, 1000, 10 * kShort); });
  Client holder([&] {
    holder_gate.wait();
    const Held held;
    std::printf("held\n");
    std::fflush(stdout);
    holder_gate.wait();
  });
  first_gate.open(1);
  emu_device* opened = nullptr;
  OK(api->device_open(0, &opened));
  while (telemetry(opened).launches < 300) {} // the first one has had a good deal
  api->device_close(opened);
  holder_gate.open(1);
  CHECK(holder.line() == "held");
  second_gate.open(1);
  CHECK(second.line() == "submitted");
  holder_gate.open(1);
  CHECK(holder.wait() == 0);
  CHECK(first.wait() == 0 && second.wait() == 0);
  const std::vector<Ran> early = ran(0), late = ran(1);
  CHECK(late.front().start > early[299].end && late.back().end < early.back().end);
  // While the second one ran, the first one did too.
  const auto meanwhile = std::count_if(early.begin(), early.end(), [&](const Ran& one) {
    return one.start > late.front().start && one.end < late.back().end;
  });
  std::printf("%td launches of the first client while the second one had %zu\n", meanwhile, late.size());
  CHECK(meanwhile >= 990 && meanwhile <= 1010);
}

/* A process that leaves and comes again owes what it had; as a new one it would go first each time. */
CASE(fair_to_who_stays) {
  emu::Accounts accounts;
  emu::Turns turns(EMU_QUEUE_COMPUTE);
  const auto owes = [&](const emu::Account& one) { return turns.owes(one); };
  const auto steady = accounts.of(1, owes);
  auto restless = accounts.of(2, owes);
  turns.serve(*steady, 2'000);
  turns.serve(*restless, 1'000'000);
  for (int i = 0; i < 100; ++i) {
    restless.reset();
    restless = accounts.of(2, owes);
    CHECK(turns.start(*steady) < turns.start(*restless));
    turns.serve(*steady, 2'000);
  }
  // Nobody owes anything when nobody wants anything.
  turns.idle();
  CHECK(turns.start(*steady) == turns.start(*restless));
  // What is of no consequence any more is forgotten.
  restless.reset();
  const std::weak_ptr<emu::Account> forgotten = accounts.of(2, owes);
  (void)accounts.of(1, owes);
  CHECK(forgotten.expired());
}

/* Of one process, whatever its contexts: the lowest number first, and equals in turn. */
CASE(fair_priorities) {
  const Served device;
  const Gate gate;
  Client client([&] {
    gate.wait();
    emu_device* opened = nullptr;
    OK(api->device_open(0, &opened));
    const int32_t priorities[] = {1, 0, -1, 0};
    emu_context* contexts[4] = {};
    emu_queue* queues[4] = {};
    for (int i = 0; i < 4; ++i) {
      if (i % 2 == 0) OK(api->context_create(opened, &contexts[i]));
      else contexts[i] = contexts[i - 1];
      OK(api->activity_enable(contexts[i], 1));
      OK(api->queue_create(contexts[i], EMU_QUEUE_COMPUTE, priorities[i], &queues[i]));
      emu_program* empty = Setup::load(contexts[i], kEmpty);
      for (int n = 0; n < 20; ++n) OK(api->queue_launch(queues[i], empty, kOneBlock, nullptr, 0, 0, nullptr));
    }
    std::printf("submitted\n");
    std::fflush(stdout);
    for (emu_queue* queue : queues) OK(api->queue_synchronize(queue, 20, UINT64_MAX));
    std::vector<std::pair<uint64_t, int>> order; // start, number of the queue
    for (int i = 0; i < 4; i += 2) {
      emu_activity records[41];
      size_t count = 0;
      uint64_t dropped = 0;
      OK(api->activity_read(contexts[i], records, 41, &count, &dropped));
      CHECK(count == 40);
      for (size_t n = 0; n < count; ++n) {
        order.emplace_back(records[n].start_ticks, records[n].queue == api->queue_id(queues[i]) ? i : i + 1);
      }
    }
    std::sort(order.begin(), order.end());
    for (size_t n = 0; n < 20; ++n) CHECK(order[n].second == 2);
    for (size_t n = 20; n < 60; ++n) CHECK(order[n].second % 2 == 1 && order[n].second != order[n - 1].second);
    for (size_t n = 60; n < 80; ++n) CHECK(order[n].second == 0);
  });
  {
    const Held held;
    gate.open(1);
    CHECK(client.line() == "submitted");
  }
  CHECK(client.wait() == 0);
}
