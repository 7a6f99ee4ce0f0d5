/* Cases about errata: what a stepping does wrong shows, and the workaround of the library is needed and enough. */
#include <unistd.h>

#include <array>
#include <cstddef>

#include "raw_queue.h"

using namespace emu;
using namespace emu::test;

namespace {

/* 20 bytes of arguments, the last four of them in a granule that is cut: stores those. */
const std::string kStoreLast =
    ".program last\n.lanes 64\n.args 20\n arg.i64 s0, 0\n arg.i32 s1, 16\n sstore.i32 s1, s0\n exit\n";
constexpr uint64_t kArguments = 20;
constexpr uint32_t kSaid = 0xdecafbad;

std::array<std::byte, kArguments> arguments_for(uint64_t address) {
  std::array<std::byte, kArguments> bytes{};
  std::memcpy(bytes.data(), &address, sizeof address);
  std::memcpy(bytes.data() + 16, &kSaid, sizeof kSaid);
  return bytes;
}

/* Through the library. */
uint32_t stored() {
  Setup setup;
  const uint64_t address = setup.alloc(65536);
  const auto arguments = arguments_for(address);
  uint64_t sequence = 0;
  OK(api->queue_launch(setup.queue, setup.program(kStoreLast), kOneBlock, arguments.data(), arguments.size(), 0,
                       &sequence));
  OK(api->queue_synchronize(setup.queue, sequence, UINT64_MAX));
  auto* const host = setup.pinned<uint32_t>(1);
  setup.from_device(host, address, sizeof *host);
  return *host;
}

/* By a client of that interface that gives arguments of this length, of which the program has kArguments. */
uint32_t stored_raw(uint32_t interface_version, uint64_t length) {
  emu_buffer binary{};
  OK(api->assemble(kStoreLast.data(), kStoreLast.size(), &binary));
  const Descriptor socket = connect_raw();
  const int s = socket.get();
  CHECK(shake(s, kHelloMagic, interface_version).status == EMU_OK);
  RawQueue queue(s);
  const Descriptor text = sealed_memory(binary.data, binary.bytes, 4096);
  const RawReply loaded = ask(s, RequestKind::program_load, queue.context, 0, 0, binary.bytes, text.get());
  CHECK(loaded.reply.status == EMU_OK && loaded.reply.count == kArguments);
  api->buffer_release(&binary);
  const uint64_t address = ask(s, RequestKind::memory_alloc, queue.context, 0, 0, 65536).reply.value;
  const uint32_t before = 0;
  const Descriptor pinned = sealed_memory(&before, sizeof before, 4096);
  const uint64_t buffer = ask(s, RequestKind::host_register, queue.context, 0, 0, 4096, pinned.get()).reply.value;
  const Command launch{uint32_t(CommandKind::launch), 128, 0, loaded.reply.value, 0, 0, length, {1, 1, 1}, 0};
  const Command copy{uint32_t(CommandKind::copy_from_device), 64, 0, buffer, address, 0, 4, {}, 0};
  const auto arguments = arguments_for(address);
  std::memcpy(queue.data(), &launch, sizeof launch);
  std::memcpy(queue.data() + 64, arguments.data(), arguments.size());
  std::memcpy(queue.data() + 128, &copy, sizeof copy);
  queue.submit(192);
  CHECK(eventually([&] { return queue.header().completed.load() == 2; }));
  uint32_t value = 0;
  CHECK(pread(pinned.get(), &value, sizeof value, 0) == sizeof value);
  return value;
}

std::string stepping() {
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  const emu_device_info info = info_of(device);
  api->device_close(device);
  return info.stepping;
}

} // namespace

CASE(erratum_argument_tail) {
  const Served served; // A0 is the first
  CHECK(stepping() == "A0");
  CHECK(stored_raw(EMU_DRIVER_INTERFACE, kArguments) == 0); // without the workaround
  CHECK(stored_raw(EMU_DRIVER_INTERFACE, 32) == kSaid);     // with it
  CHECK(stored_raw(1001, kArguments) == kSaid);             // for who cannot know
  CHECK(stored() == kSaid);
}

CASE(erratum_is_mended) {
  const Served served({"--stepping", "A1"});
  CHECK(stepping() == "A1");
  CHECK(stored_raw(EMU_DRIVER_INTERFACE, kArguments) == kSaid);
  CHECK(stored_raw(EMU_DRIVER_INTERFACE, 32) == kSaid);
  CHECK(stored() == kSaid);
}

CASE(stepping_is_unknown) {
  const Ended refused = run_emud({"--node", node(), "--stepping", "B7"});
  CHECK(refused.status == 2);
  SAYS(refused.output.c_str(), "--stepping: expected one of A0, A1, got 'B7'");
}
