/* The answer about memory grew by two fields, and a client of interface 1.0 that wanted to say how much memory was
 * left reported a version that does not meet instead: out of memory looked like a broken installation. Fixed in
 * interface 1.1. */
#include "raw.h"

using namespace emu;
using namespace emu::test;

CASE(answer_grew_for_older_clients) {
  const Served device;
  const Descriptor socket = connect_raw();
  CHECK(shake(socket.get(), kHelloMagic, 1000).status == EMU_OK);
  const uint64_t context = ask(socket.get(), RequestKind::context_create).reply.value;
  const Request request{uint32_t(RequestKind::memory_info), 0, context, 0, 0, 0};
  CHECK(send_message(socket.get(), &request, sizeof request));
  std::vector<std::byte> answer(kMaxMessage);
  // 672 bytes of reply, and the 32 that the answer had in 1.0.
  CHECK(recv(socket.get(), answer.data(), answer.size(), 0) == 672 + 32);
}
