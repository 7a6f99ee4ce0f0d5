/* A client that speaks the protocol badly on purpose. emud has to refuse, keep its other
 * clients served, and give everything back. */
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "raw.h"
#include "ring.h"

using namespace emu;
using namespace emu::test;

namespace {

struct RawQueue {
  explicit RawQueue(int socket_) : socket(socket_) {
    context = ask(socket, RequestKind::context_create).reply.value;
    RawReply made = ask(socket, RequestKind::queue_create, context, EMU_QUEUE_COMPUTE);
    CHECK(made.reply.status == EMU_OK && made.fds.size() == 2);
    doorbell = std::move(made.fds[1]);
    const size_t bytes = kRingDataOffset + made.reply.count;
    ring = Mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fds[0].get(), 0), bytes);
    CHECK(bool(ring));
    CHECK(ftruncate(made.fds[0].get(), 0) != 0); // sealed: it cannot be taken away under emud
  }
  RingHeader& header() { return *static_cast<RingHeader*>(ring.get()); }
  std::byte* data() { return static_cast<std::byte*>(ring.get()) + kRingDataOffset; }
  void submit(uint64_t tail) {
    header().tail.store(tail);
    const uint64_t one = 1;
    CHECK(write(doorbell.get(), &one, sizeof one) == sizeof one);
  }
  emu_error wait_for_fault() {
    for (int i = 0; i < 10000 && header().state.load() == 0; ++i) usleep(1000);
    CHECK(QueueState(header().state.load()) == QueueState::context_lost);
    const Request request{uint32_t(RequestKind::fault), 0, context, 0, 0, 0};
    CHECK(send_message(socket, &request, sizeof request));
    std::vector<std::byte> message(kMaxMessage);
    Descriptors fds;
    CHECK(receive_message(socket, message.data(), message.size(), fds) == sizeof(Reply) + sizeof(emu_error));
    emu_error error;
    std::memcpy(&error, message.data() + sizeof(Reply), sizeof error);
    return error;
  }
  int socket;
  uint64_t context;
  Descriptor doorbell;
  Mapping ring;
};

} // namespace

CASE(hostile_handshakes) {
  const Served device;
  CHECK(shake(connect_raw().get(), kHelloMagic, EMU_DRIVER_INTERFACE).status == EMU_OK);
  const Welcome newer = shake(connect_raw().get(), kHelloMagic, EMU_DRIVER_INTERFACE + 1000);
  CHECK(newer.status == EMU_ERROR_VERSION && newer.interface_version == EMU_DRIVER_INTERFACE);
  SAYS(newer.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR + 1) + ".");
  SAYS(newer.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + ".");
  CHECK(shake(connect_raw().get(), kHelloMagic, EMU_DRIVER_INTERFACE + 1).status == EMU_ERROR_VERSION);
  CHECK(shake(connect_raw().get(), 42, EMU_DRIVER_INTERFACE).status == EMU_ERROR_VERSION);
  for (int i = 0; i < 50; ++i) connect_raw(); // and away, without a word
  emud_still_serves();
}

CASE(hostile_requests) {
  const Served device;
  const Descriptor socket = greeted();
  const int s = socket.get();
  CHECK(ask(s, RequestKind(0)).reply.status == EMU_ERROR_NOT_SUPPORTED);
  CHECK(ask(s, RequestKind(kRequestKinds + 1)).reply.status == EMU_ERROR_NOT_SUPPORTED);
  CHECK(ask(s, RequestKind::memory_alloc, 12345, 0, 0, 1).reply.status == EMU_ERROR_STALE_HANDLE);
  CHECK(ask(s, RequestKind::device_info, 1).reply.status == EMU_ERROR_INVALID_ARGUMENT);
  CHECK(ask(s, RequestKind::device_info, 0, 0, 0, 0, s).reply.status == EMU_ERROR_INVALID_ARGUMENT);
  const std::vector<std::byte> large(100000);
  CHECK(exchange(s, large.data(), large.size()).reply.status == EMU_ERROR_INVALID_ARGUMENT);
  CHECK(exchange(s, large.data(), 1).reply.status == EMU_ERROR_INVALID_ARGUMENT);
  const uint64_t context = ask(s, RequestKind::context_create).reply.value;

  // Pinned memory: not a memfd, not sealed, smaller than said. Programs: a pipe, too short.
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const Descriptor reading(pipes[0]), writing(pipes[1]);
  const Descriptor plain(memfd_create("plain", MFD_ALLOW_SEALING));
  CHECK(ftruncate(plain.get(), 4096) == 0);
  for (const int fd : {reading.get(), plain.get()}) {
    CHECK(ask(s, RequestKind::host_register, context, 0, 0, 4096, fd).reply.status == EMU_ERROR_INVALID_ARGUMENT);
  }
  CHECK(ask(s, RequestKind::program_load, context, 0, 0, 64, reading.get()).reply.status == EMU_ERROR_BAD_PROGRAM);
  CHECK(ask(s, RequestKind::program_load, context, 0, 0, 1 << 20, plain.get()).reply.status == EMU_ERROR_BAD_PROGRAM);
  CHECK(ask(s, RequestKind::program_load, context, 0, 0, 4096, plain.get()).reply.status == EMU_ERROR_BAD_PROGRAM);

  // Another client's context is nobody's business.
  const Descriptor other = greeted();
  CHECK(ask(other.get(), RequestKind::memory_info, context).reply.status == EMU_ERROR_STALE_HANDLE);
  for (int i = 0; i < 15; ++i) CHECK(ask(s, RequestKind::context_create).reply.status == EMU_OK);
  CHECK(ask(s, RequestKind::context_create).reply.status == EMU_ERROR_OUT_OF_MEMORY);
  CHECK(ask(other.get(), RequestKind::device_info).reply.status == EMU_OK);
}

CASE(hostile_rings) {
  const Served device;
  const Descriptor socket = greeted();
  const auto faults_with = [&](auto corrupt, const char* part) {
    RawQueue queue(socket.get());
    corrupt(queue);
    const emu_error error = queue.wait_for_fault();
    CHECK(error.status == EMU_ERROR_ILLEGAL_COMMAND);
    SAYS(error.cause, part);
    CHECK(ask(socket.get(), RequestKind::context_destroy, queue.context).reply.status == EMU_OK);
  };
  const auto command = [](RawQueue& queue, Command command) {
    command.bytes = command.bytes != 0 ? command.bytes : sizeof command;
    std::memcpy(queue.data(), &command, sizeof command);
    queue.submit(sizeof command);
  };
  faults_with([](RawQueue& q) { q.submit(64 * 1000 * 1000); }, "tail");
  faults_with([](RawQueue& q) { q.submit(UINT64_MAX); }, "tail");
  faults_with([](RawQueue& q) { q.submit(7); }, "tail");
  faults_with([](RawQueue& q) { q.submit(64); }, "size"); // a command of zeros
  faults_with([&](RawQueue& q) { command(q, {1, 4096 * 2, 0, 0, 0, 0, 0, {1, 1, 1}, 0}); }, "size");
  faults_with([&](RawQueue& q) { command(q, {99, 0, 0, 0, 0, 0, 0, {1, 1, 1}, 0}); }, "kind");
  faults_with([&](RawQueue& q) { command(q, {1, 0, 0, 777, 0, 0, 0, {1, 1, 1}, 0}); }, "program");
  faults_with([&](RawQueue& q) { command(q, {2, 0, 0, 65536, 777, 0, 1, {}, 0}); }, "pinned");
  faults_with([&](RawQueue& q) { command(q, {6, 0, 0, 777, 1, 0, 0, {}, 0}); }, "never reach");
  faults_with([&](RawQueue& q) { command(q, {7, 0, 0, 777, 0, 0, 0, {}, 0}); }, "pinned");
  emud_still_serves();
}

CASE(hostile_random) {
  const Served device;
  // 10,000 mutated messages and 2,000 mutated rings, from a fixed seed.
  std::mt19937_64 random(20261129);
  const auto some = [&](uint64_t below) { return random() % below; };
  const Descriptor file(memfd_create("some", 0));
  CHECK(ftruncate(file.get(), 65536) == 0);
  for (int connection = 0; connection < 100; ++connection) {
    const Descriptor socket = greeted();
    uint64_t context = ask(socket.get(), RequestKind::context_create).reply.value;
    for (int i = 0; i < 100; ++i) {
      Request request{uint32_t(some(kRequestKinds + 2)), 0, context, some(8), some(8), some(1 << 20)};
      auto* bytes = reinterpret_cast<unsigned char*>(&request);
      for (uint64_t n = some(4); n > 0; --n) bytes[some(sizeof request)] = static_cast<unsigned char>(random());
      const int fds[2] = {file.get(), socket.get()};
      const RawReply answer =
          exchange(socket.get(), &request, some(20) == 0 ? some(sizeof request) + 1 : sizeof request, fds, some(3));
      if (answer.reply.kind == uint32_t(RequestKind::context_create) && answer.reply.status == EMU_OK) {
        context = answer.reply.value;
      }
    }
  }
  const Descriptor socket = greeted();
  for (int round = 0; round < 200; ++round) {
    RawQueue queue(socket.get());
    ask(socket.get(), RequestKind::memory_alloc, queue.context, 0, 0, 65536);
    for (uint64_t i = 0; i < 10; ++i) {
      Command command{uint32_t(some(9)), 64 * uint32_t(1 + some(2)), random(), some(4), some(1 << 17), some(1 << 17),
                      some(1 << 17), {1, 1, 1}, 0};
      auto* bytes = reinterpret_cast<unsigned char*>(&command);
      for (uint64_t n = some(3); n > 0; --n) bytes[some(sizeof command)] = static_cast<unsigned char>(random());
      std::memcpy(queue.data() + 64 * i, &command, sizeof command);
    }
    queue.submit(640);
    queue.header().completed.store(random()); // what emud wrote there is the client's to spoil
    queue.header().head.store(random());
    CHECK(ask(socket.get(), RequestKind::context_destroy, queue.context).reply.status == EMU_OK);
  }
  emud_still_serves();
}
