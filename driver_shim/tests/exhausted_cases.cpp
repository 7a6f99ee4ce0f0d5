/* A host that has no memory to give: who asks is told, and the others are served. Not for the sanitizers, which end a
 * process that gets none. */
#include <fstream>

#include "limited.h"
#include "raw.h"

using namespace emu;
using namespace emu::test;

namespace {

/* Of a field of /proc/PID/status, in bytes. */
uint64_t status_bytes(int pid, const std::string& field) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == field + ":" && file >> kib) return kib << 10;
  }
  fail(__FILE__, __LINE__, "no " + field);
}

/* All its vector registers: what it needs on the host no earlier program has needed. */
std::string large_program() {
  std::string text = ".program large\n.lanes 4096\n.args 0\n";
  for (int i = 0; i < 16; ++i) text += " const.f64 v" + std::to_string(i) + ", 1\n";
  return text + " exit\n";
}

} // namespace

CASE(exhausted_threads) {
  const Served device;
  const Descriptor held = greeted();
  {
    const Limited full(device.pid(), RLIMIT_DATA, status_bytes(device.pid(), "VmData") + (128 << 10));
    emu_device* handle = nullptr;
    REFUSED(EMU_ERROR_HOST, api->device_open(0, &handle));
    SAYS(last_error().cause, "thread");
    CHECK(ask(held.get(), RequestKind::device_info).reply.status == EMU_OK);
  }
  emud_still_serves();
}

CASE(exhausted_memory) {
  const Served device;
  Setup good;
  emu_program* empty = good.program(kEmpty);
  uint64_t sequence = 0;
  OK(api->queue_launch(good.queue, empty, kOneBlock, nullptr, 0, 0, &sequence));
  OK(api->queue_synchronize(good.queue, sequence, UINT64_MAX));
  emu_context* context = nullptr;
  emu_queue* queue = nullptr;
  OK(api->context_create(good.device, &context));
  OK(api->queue_create(context, EMU_QUEUE_COMPUTE, 0, &queue));
  emu_program* large = Setup::load(context, large_program());
  {
    const Limited full(device.pid(), RLIMIT_DATA, status_bytes(device.pid(), "VmData") + (128 << 10));
    OK(api->queue_launch(queue, large, kOneBlock, nullptr, 0, 0, &sequence));
    REFUSED(EMU_ERROR_HOST, api->queue_synchronize(queue, sequence, UINT64_MAX));
    SAYS(last_error().cause, "no memory on the host");
    CHECK(last_error().scope == EMU_SCOPE_CONTEXT && std::string(last_error().program) == "large");
    OK(api->queue_launch(good.queue, empty, kOneBlock, nullptr, 0, 0, &sequence));
    OK(api->queue_synchronize(good.queue, sequence, UINT64_MAX));
    // A request that needs as much.
    emu_buffer binary{};
    std::string text = ".program long\n.lanes 64\n.args 0\n";
    for (int i = 0; i < 60000; ++i) text += "const.i64 s0, 1\n";
    text += "exit\n";
    OK(api->assemble(text.data(), text.size(), &binary));
    emu_program* program = nullptr;
    REFUSED(EMU_ERROR_HOST, api->program_load(good.context, binary.data, binary.bytes, &program));
    SAYS(last_error().cause, "no memory on the host");
    api->buffer_release(&binary);
  }
  OK(api->context_destroy(context));
  OK(api->queue_launch(good.queue, good.program(large_program()), kOneBlock, nullptr, 0, 0, &sequence));
  OK(api->queue_synchronize(good.queue, sequence, UINT64_MAX));
}

CASE(exhausted_descriptors) {
  const Served device;
  const Setup setup;
  void* pinned = nullptr;
  {
    const Limited full(device.pid(), RLIMIT_NOFILE, 0); // those that it has, it keeps
    REFUSED(EMU_ERROR_HOST, api->host_alloc(setup.context, 4096, &pinned));
    SAYS(last_error().cause, "Too many open files");
    REFUSED(EMU_ERROR_HOST, api->host_alloc(setup.context, 4096, &pinned));
  }
  OK(api->host_alloc(setup.context, 4096, &pinned));
}
