/* A ring without libemudrv: what is in it is up to the case. */
#ifndef EMU_TEST_RAW_QUEUE_H
#define EMU_TEST_RAW_QUEUE_H

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "raw.h"
#include "ring.h"

namespace emu::test {

/* A process may have so many contexts, and those of a connection that it left are gone a moment later. */
inline uint64_t raw_context(int socket, uint64_t number = 0) {
  uint64_t context = 0;
  CHECK(eventually([&] {
    context = ask(socket, RequestKind::context_create, 0, 0, number).reply.value;
    return context != 0;
  }));
  return context;
}

struct RawQueue {
  explicit RawQueue(int socket_) : socket(socket_), context(raw_context(socket)) {
    RawReply made = ask(socket, RequestKind::queue_create, context, EMU_QUEUE_COMPUTE);
    CHECK(made.reply.status == EMU_OK && made.fds.size() == 2);
    id = made.reply.value;
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
  uint64_t context, id;
  Descriptor doorbell;
  Mapping ring;
};

} // namespace emu::test

#endif
