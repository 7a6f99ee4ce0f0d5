/* A client that speaks the protocol badly on purpose. emud has to refuse, keep its other
 * clients served, and give everything back. */
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "raw_queue.h"

using namespace emu;
using namespace emu::test;

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
