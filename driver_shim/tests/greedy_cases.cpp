/* Clients that take all they can get: who asks is told why not, and the others are served. */
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <list>
#include <vector>

#include "emu_constants.h"
#include "limited.h"
#include "raw.h"

using namespace emu;
using namespace emu::test;

namespace {

/* Processor time of a process in seconds. */
double worked(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, ')');
  double user = 0, system = 0;
  for (int i = 0; i < 11; ++i) file >> text;
  file >> user >> system;
  return (user + system) / double(sysconf(_SC_CLK_TCK));
}

uint64_t new_context(int socket) {
  const RawReply made = ask(socket, RequestKind::context_create);
  CHECK(made.reply.status == EMU_OK);
  return made.reply.value;
}

/* Asks until it is refused; how often it was not. */
template <typename Ask>
uint64_t until_refused(uint64_t most, const Ask& ask_once) {
  for (uint64_t count = 0; count <= most; ++count) {
    const Reply reply = ask_once();
    if (reply.status == EMU_OK) continue;
    CHECK(reply.status == EMU_ERROR_OUT_OF_MEMORY && reply.scope == EMU_SCOPE_COMMAND);
    SAYS(reply.cause, "of one process");
    return count;
  }
  fail(__FILE__, __LINE__, "more than the quota was given");
}

Descriptor memfd_of(const std::string& text) {
  emu_buffer binary{};
  OK(api->assemble(text.data(), text.size(), &binary));
  Descriptor fd(memfd_create("program", MFD_CLOEXEC));
  CHECK(write(fd.get(), binary.data, binary.bytes) == ssize_t(binary.bytes));
  api->buffer_release(&binary);
  return fd;
}

/* To a client that asks for little. */
void emud_serves_one_more() {
  const Setup setup;
  const uint64_t address = setup.alloc(65536);
  auto* host = setup.pinned<uint32_t>(1);
  *host = 0xdecafbad;
  setup.to_device(address, host, 4);
  *host = 0;
  setup.from_device(host, address, 4);
  CHECK(*host == 0xdecafbad);
}

uint64_t size_of(const Descriptor& fd) { return uint64_t(lseek(fd.get(), 0, SEEK_END)); }

} // namespace

CASE(greedy_quotas) {
  const Served device;
  const Descriptor socket = greeted();
  const int s = socket.get();
  const uint64_t one = new_context(s), other = new_context(s);
  const auto request = [&](RequestKind kind, uint64_t context, uint64_t bytes, int fd = -1) {
    return ask(s, kind, context, 0, 0, bytes, fd).reply;
  };

  // Counted over all contexts of a client: half in the one, the rest in the other.
  for (uint64_t i = 0; i < constants::kClientMappings / 2; ++i) {
    CHECK(request(RequestKind::memory_alloc, one, 1).status == EMU_OK);
  }
  const Descriptor page = sealed_memory(nullptr, 0, 4096);
  CHECK(until_refused(constants::kClientMappings, [&] {
          return request(RequestKind::host_register, other, 4096, page.get());
        }) == constants::kClientMappings / 2);
  CHECK(request(RequestKind::memory_alloc, other, 1).status == EMU_ERROR_OUT_OF_MEMORY);
  CHECK(ask(s, RequestKind::context_destroy, one).reply.status == EMU_OK); // gives its half back
  const uint64_t third = new_context(s);
  CHECK(request(RequestKind::memory_alloc, third, 1).status == EMU_OK);
  CHECK(ask(s, RequestKind::context_destroy, other).reply.status == EMU_OK);

  const uint64_t quarter = constants::kClientRegisteredBytes / 4;
  const Descriptor sparse = sealed_memory(nullptr, 0, quarter);
  CHECK(until_refused(5, [&] { return request(RequestKind::host_register, third, quarter, sparse.get()); }) == 4);

  const Descriptor small = memfd_of(kEmpty);
  CHECK(until_refused(constants::kClientPrograms, [&] {
          return request(RequestKind::program_load, third, size_of(small), small.get());
        }) == constants::kClientPrograms);
  CHECK(ask(s, RequestKind::context_destroy, third).reply.status == EMU_OK);

  std::string text = ".program long\n.lanes 64\n.args 0\n";
  for (int i = 0; i < 60000; ++i) text += "const.i64 s0, 1\n";
  const Descriptor large = memfd_of(text + "exit\n");
  const uint64_t fourth = new_context(s);
  const uint64_t fit = constants::kClientProgramBytes / size_of(large);
  CHECK(until_refused(fit, [&] {
          return request(RequestKind::program_load, fourth, size_of(large), large.get());
        }) == fit);

  for (uint64_t i = 0; i < constants::kClientQueues; ++i) {
    static uint64_t context = 0;
    if (i % constants::kMaxQueues == 0) context = new_context(s);
    CHECK(ask(s, RequestKind::queue_create, context, EMU_QUEUE_COPY).reply.status == EMU_OK);
  }
  const Reply reply = ask(s, RequestKind::queue_create, fourth, EMU_QUEUE_COPY).reply;
  CHECK(reply.status == EMU_ERROR_OUT_OF_MEMORY);
  SAYS(reply.cause, "queues of one process");
  CHECK(Client([] { emud_still_serves(5); }).wait() == 0);
}

CASE(greedy_silence) {
  const Served device({"--handshake-seconds", "3"});
  const auto start = std::chrono::steady_clock::now();
  std::vector<Descriptor> silent;
  for (uint64_t i = 0; i < constants::kClientConnections; ++i) silent.push_back(connect_raw());
  CHECK(Client([] { emud_still_serves(); }).wait() == 0);
  emu_device* handle = nullptr;
  REFUSED(EMU_ERROR_HOST, api->device_open(0, &handle));
  SAYS(last_error().cause, "connections of one process: expected at most 64");
  char byte;
  CHECK(recv(silent[0].get(), &byte, 1, 0) == 0); // hung up
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK(eventually([&] { return api->device_open(0, &handle) == EMU_OK; }, 5));
  api->device_close(handle);
  emud_still_serves();
}

/* A process, and not a connection, is who has a quota. */
CASE(greedy_connections) {
  const Served device;
  const Descriptor first = greeted(), second = greeted();
  for (uint64_t i = 0; i < constants::kClientContexts / 2; ++i) {
    new_context(first.get());
    new_context(second.get());
  }
  const Descriptor third = greeted();
  for (const Descriptor* socket : {&first, &second, &third}) {
    const Reply reply = ask(socket->get(), RequestKind::context_create).reply;
    CHECK(reply.status == EMU_ERROR_OUT_OF_MEMORY);
    SAYS(reply.cause, "contexts of one process: expected at most 16, got 16 with 1 more");
  }
  CHECK(Client([] { emud_still_serves(constants::kClientContexts); }).wait() == 0);
  CHECK(ask(first.get(), RequestKind::context_destroy, 1).reply.status == EMU_OK);
  new_context(third.get());
}

/* Several processes take all they can get of what they can get at once; one that asks for little still finds it. */
CASE(greedy_processes) {
  const Served device;
  std::list<Client> clients;
  std::vector<uint64_t> connections, mappings;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back([] {
      std::vector<Descriptor> sockets;
      do {
        sockets.push_back(connect_raw());
      } while (shake(sockets.back().get(), kHelloMagic, EMU_DRIVER_INTERFACE).status == EMU_OK);
      const int socket = sockets[0].get();
      const uint64_t context = new_context(socket);
      uint64_t count = 0;
      while (ask(socket, RequestKind::memory_alloc, context, 0, 0, 1).reply.status == EMU_OK) ++count;
      std::printf("%zu\n%llu\n", sockets.size() - 1, static_cast<unsigned long long>(count));
      std::fflush(stdout);
      pause();
    });
    connections.push_back(std::stoull(clients.back().line()));
    mappings.push_back(std::stoull(clients.back().line()));
  }
  // The last eighth goes to those who hold no more than a sixteenth of what each may hold.
  CHECK((connections == std::vector<uint64_t>{64, 64, 64, 32, 4}));
  CHECK((mappings == std::vector<uint64_t>{8192, 8192, 8192, 512, 512}));
  emud_serves_one_more();
  for (Client& client : clients) {
    kill(client.pid(), SIGKILL);
    client.wait();
  }
  emud_still_serves();
}

CASE(greedy_descriptors) {
  const Served device;
  std::vector<Descriptor> held;
  held.push_back(greeted());
  {
    const Limited few(device.pid(), RLIMIT_NOFILE, uint64_t(descriptors(std::to_string(device.pid()))) + 8);
    Welcome last{};
    for (int i = 0; i < 64 && last.status == EMU_OK; ++i) {
      held.push_back(connect_raw());
      last = shake(held.back().get(), kHelloMagic, EMU_DRIVER_INTERFACE);
    }
    CHECK(last.status == EMU_ERROR_HOST);
    SAYS(last.cause, "one more client");
    emu_device* handle = nullptr;
    REFUSED(EMU_ERROR_HOST, api->device_open(0, &handle));
    SAYS(last_error().cause, "one more client");
    CHECK(ask(held[0].get(), RequestKind::device_info).reply.status == EMU_OK);
    const double before = worked(device.pid());
    usleep(500'000);
    CHECK(worked(device.pid()) - before < 0.2); // it waits, and does not ask again and again
  }
  held.clear();
  emud_still_serves();
}
