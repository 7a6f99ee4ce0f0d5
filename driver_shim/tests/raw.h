/* A client without libemudrv: what it may send is up to the case. */
#ifndef EMU_TEST_RAW_H
#define EMU_TEST_RAW_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "harness.h"
#include "protocol.h"
#include "socket.h"

namespace emu::test {

inline Descriptor connect_raw() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  CHECK(socket_address(node(), address));
  CHECK(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const timeval patience{20, 0}; // an emud that never answers is a failure, not a hang
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

inline Welcome shake(int socket, uint64_t magic, uint32_t version) {
  const Hello hello{magic, version, 0};
  send_message(socket, &hello, sizeof hello); // who is turned away may find the door closed, and the answer behind it
  Welcome welcome{};
  Descriptors fds;
  ssize_t got = receive_message(socket, &welcome, sizeof welcome, fds);
  if (got < 0 && errno == ECONNRESET) got = receive_message(socket, &welcome, sizeof welcome, fds);
  CHECK(got == sizeof welcome);
  return welcome;
}

inline Descriptor greeted() {
  Descriptor socket = connect_raw();
  CHECK(shake(socket.get(), kHelloMagic, EMU_DRIVER_INTERFACE).status == EMU_OK);
  return socket;
}

struct RawReply {
  Reply reply{};
  Descriptors fds;
};

inline RawReply exchange(int socket, const void* data, size_t bytes, const int* fds = nullptr, size_t count = 0) {
  CHECK(send_message(socket, data, bytes, fds, count));
  RawReply out;
  std::vector<std::byte> message(kMaxMessage);
  CHECK(receive_message(socket, message.data(), message.size(), out.fds) >= ssize_t(sizeof(Reply)));
  std::memcpy(&out.reply, message.data(), sizeof(Reply));
  return out;
}

inline RawReply ask(int socket, RequestKind kind, uint64_t context = 0, uint64_t object = 0, uint64_t value = 0,
             uint64_t bytes = 0, int fd = -1) {
  const Request request{uint32_t(kind), 0, context, object, value, bytes};
  return exchange(socket, &request, sizeof request, &fd, fd >= 0 ? 1 : 0);
}

/* What may be pinned, or loaded as a program: `size` bytes that begin with `data`. */
inline Descriptor sealed_memory(const void* data, size_t bytes, size_t size) {
  Descriptor fd(memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  CHECK(ftruncate(fd.get(), off_t(size)) == 0 && pwrite(fd.get(), data, bytes, 0) == ssize_t(bytes));
  CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  return fd;
}

/* A good client is served as if nothing had happened; `contexts` are open besides its own. */
inline void emud_still_serves(uint32_t contexts = 0) {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  auto* host = setup.pinned<uint32_t>(1);
  *host = 0xdecafbad;
  setup.to_device(address, host, 4);
  *host = 0;
  setup.from_device(host, address, 4);
  CHECK(*host == 0xdecafbad);
  emu_telemetry now{};
  // Sessions of clients that left end a moment later.
  for (int i = 0; i < 1000; ++i) {
    now = telemetry(setup.device);
    if (now.contexts == contexts + 1) break;
    usleep(10'000);
  }
  CHECK(now.contexts == contexts + 1 && now.memory_used_bytes == 65536);
}

} // namespace emu::test

#endif
