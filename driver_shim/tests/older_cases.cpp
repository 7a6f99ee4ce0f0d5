/* Clients of interfaces 1.0 and 1.1, by their bytes: what they ask and the sizes that they take were fixed when they
 * were built, so nothing here comes from the headers of today. */
#include <sys/socket.h>

#include "raw.h"

using namespace emu;
using namespace emu::test;

namespace {

constexpr size_t kReplyBytes = 672;

class OldClient {
 public:
  explicit OldClient(uint32_t interface_version) : socket_(connect_raw()) {
    const uint64_t hello[2] = {0x31764f4c48554d45, interface_version}; // "EMUHLOv1"
    CHECK(send(socket_.get(), hello, sizeof hello, 0) == sizeof hello);
    std::byte welcome[512];
    CHECK(recv(socket_.get(), welcome, sizeof welcome, 0) == 272);
    int32_t status = -1;
    std::memcpy(&status, welcome + 12, sizeof status);
    CHECK(status == 0);
  }

  /* Bytes of the payload; `value` of the reply goes to `out`. */
  size_t ask(uint32_t kind, uint64_t context, uint64_t object, uint64_t value, uint64_t bytes,
             uint64_t* out = nullptr) {
    const uint64_t request[5] = {kind, context, object, value, bytes};
    CHECK(send(socket_.get(), request, sizeof request, 0) == sizeof request);
    std::byte reply[kReplyBytes + 65536];
    const ssize_t got = recv(socket_.get(), reply, sizeof reply, 0);
    CHECK(got >= ssize_t(kReplyBytes));
    uint32_t head[2];
    std::memcpy(head, reply, sizeof head);
    CHECK(head[0] == kind && head[1] == 0); // its status
    if (out != nullptr) std::memcpy(out, reply + 16, sizeof *out);
    if (size_t(got) > kReplyBytes) std::memcpy(&payload_size_, reply + kReplyBytes, sizeof payload_size_);
    return size_t(got) - kReplyBytes;
  }
  uint32_t payload_size() const { return payload_size_; } // what the last payload says of itself

 private:
  const Descriptor socket_;
  uint32_t payload_size_ = 0;
};

void is_served(uint32_t interface_version) {
  OldClient client(interface_version);
  uint64_t context = 0, address = 0, queue = 0;
  CHECK(client.ask(1, 0, 0, 0, 0) == 488);          // device_info
  CHECK(client.ask(2, 0, 0, 0, 0) == 152);          // telemetry
  CHECK(client.payload_size() == 152);
  CHECK(client.ask(3, 0, 0, 0, 0, &context) == 0);  // context_create
  CHECK(client.ask(5, context, 0, 0, 65536, &address) == 0);
  CHECK(address != 0 && address % 65536 == 0);
  CHECK(client.ask(7, context, 0, 0, 0) == 32);     // memory_info
  CHECK(client.ask(12, context, 0, 0, 0, &queue) == 0);
  CHECK(client.ask(15, context, 0, 1, 0) == 0);     // activity_enable
  CHECK(client.ask(16, context, 0, 64, 0) == 0);    // activity_read: no record yet
  CHECK(client.ask(14, context, 0, 0, 0) == 736);   // fault
  CHECK(client.ask(13, context, queue, 0, 0) == 0); // queue_destroy
  CHECK(client.ask(6, context, address, 0, 0) == 0);
  CHECK(client.ask(4, context, 0, 0, 0) == 0);
}

} // namespace

CASE(older_client) {
  const Served device;
  is_served(1000);
  is_served(1001);
  emud_still_serves();
}

/* A library of before 1.2 has telemetry of 152 bytes: the rest is not written. */
CASE(older_caller) {
  Setup setup;
  alignas(emu_telemetry) std::byte room[sizeof(emu_telemetry)];
  std::memset(room, 0x5a, sizeof room);
  const uint32_t size = 152;
  std::memcpy(room, &size, sizeof size);
  OK(api->device_telemetry(setup.device, reinterpret_cast<emu_telemetry*>(room)));
  uint32_t given = 0;
  std::memcpy(&given, room, sizeof given);
  CHECK(given == 152);
  for (size_t i = 152; i < sizeof room; ++i) CHECK(room[i] == std::byte{0x5a});
}
