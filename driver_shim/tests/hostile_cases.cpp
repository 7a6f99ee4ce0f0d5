/* A client that speaks the protocol badly on purpose. emud has to refuse, keep its other
 * clients served, and give everything back. */
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "inject.h"
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

/* Commands of no bytes, at addresses of nothing, while a fault is looked for. */
CASE(hostile_empty_ranges) {
  const Served device;
  const Setup setup, other;
  emu_fault fault = fault_of(EMU_FAULT_PAGE_FAULT);
  fault.queue = UINT32_MAX - 1; // no queue's
  inject(setup, fault);
  uint64_t sequence = 0;
  auto* const host = setup.pinned(16);
  for (const uint64_t address : {uint64_t(0), UINT64_MAX - 65535, UINT64_MAX}) {
    OK(api->queue_fill(setup.queue, address, 0, 0, 0, &sequence));
    OK(api->queue_copy_on_device(setup.queue, address, address, 0, 0, &sequence));
    OK(api->queue_copy_to_device(setup.queue, address, host, 0, 0, &sequence));
    OK(api->queue_copy_peer(setup.queue, setup.context, address, other.context, address, 0, 0, &sequence));
    OK(api->queue_copy_peer(setup.queue, other.context, address, setup.context, address, 0, 0, &sequence));
    OK(api->queue_synchronize(setup.queue, sequence, 20'000'000'000));
  }
}

/* A size that is refused costs nobody any time of the device, however large it is. */
CASE(hostile_sizes) {
  const Served device;
  const Setup watcher;
  const auto now = [&] { return telemetry(watcher.device); };
  const uint64_t before = now().device_ticks;
  for (const uint64_t bytes : {UINT64_MAX - 31, uint64_t(1) << 63, uint64_t(1) << 40}) {
    const Setup setup;
    uint64_t sequence = 0;
    OK(api->queue_fill(setup.queue, setup.alloc(65536), 0, bytes, 0, &sequence));
    REFUSED(EMU_ERROR_PAGE_FAULT, api->queue_synchronize(setup.queue, sequence, 20'000'000'000));
  }
  CHECK(now().device_ticks == before && now().copy_ticks == 0);
}

CASE(hostile_resets) {
  const Served device;
  const auto reset = [](RawQueue& queue) {
    const uint64_t id = 1; // of the first queue of a device
    return emu_status(ask(queue.socket, RequestKind::queue_reset, queue.context, id).reply.status);
  };
  {
    const Descriptor socket = greeted();
    RawQueue queue(socket.get());
    CHECK(ask(queue.socket, RequestKind::queue_reset, queue.context, 99).reply.status == EMU_ERROR_STALE_HANDLE);
    Command command{}; // waits for ever: what is behind it stays
    command.kind = uint32_t(CommandKind::wait);
    command.bytes = sizeof command;
    command.target = 1;
    const RawReply other = ask(queue.socket, RequestKind::queue_create, queue.context, EMU_QUEUE_COPY);
    CHECK(other.reply.status == EMU_OK);
    command.target = other.reply.value;
    command.source = 1;
    std::memcpy(queue.data(), &command, sizeof command);
    queue.submit(sizeof command);
    CHECK(reset(queue) == EMU_OK);
    CHECK(queue.header().completed == 1 && queue.header().head == sizeof command);
    const auto place = [&](size_t slot, uint64_t awaited, uint32_t bytes = sizeof(Command)) {
      command.source = awaited;
      command.bytes = bytes;
      std::memcpy(queue.data() + slot * sizeof command, &command, sizeof command);
    };
    place(1, 0); // is done at once: then the engine is at the one behind it, and looks no further
    place(2, 1);
    queue.submit(3 * sizeof command);
    CHECK(eventually([&] { return queue.header().completed == 2; }));
    usleep(50'000);
    // Commands of no size, too long, cut short; a ring that is over-full.
    for (const uint32_t bytes : {0u, 63u, 65u, 4u << 20}) {
      place(3, 1, bytes);
      queue.submit(4 * sizeof command);
      CHECK(reset(queue) == EMU_ERROR_ILLEGAL_COMMAND);
    }
    for (const uint64_t tail : {4 * sizeof command - 1, size_t(1) << 40, size_t(0)}) {
      queue.submit(tail);
      CHECK(reset(queue) == EMU_ERROR_ILLEGAL_COMMAND);
    }
    CHECK(queue.header().completed == 2); // nothing was given up
    place(3, 1);
    queue.submit(4 * sizeof command);
    CHECK(reset(queue) == EMU_OK && queue.header().completed == 4);
    emu_fault fault{};
    const Descriptor fd(memfd_create("fault", MFD_CLOEXEC));
    CHECK(write(fd.get(), &fault, sizeof fault) == ssize_t(sizeof fault));
    for (const uint64_t bytes : {uint64_t(0), uint64_t(8), sizeof fault, sizeof fault + 1}) {
      CHECK(ask(queue.socket, RequestKind::fault_inject, 0, 0, 0, bytes, fd.get()).reply.status ==
            EMU_ERROR_INVALID_ARGUMENT);
    }
  }
  emud_still_serves();
}
