/* The N-th allocation of emud fails, for N = 1, 2, 3 and on, until a client's life goes by without: who asked is told,
 * what was asked for works when it is asked again, what gives back never fails, and nothing is left over. */
#include <algorithm>
#include <fstream>
#include <functional>

#include "allocations.h"
#include "firmware_images.h"
#include "inject.h"
#include "raw.h"

using namespace emu;
using namespace emu::test;

namespace {

constexpr uint64_t kPage = 65536;
constexpr uint64_t kPages = 16; // of the device

/* Adds 1 to the i32 at the address at offset 0, then counts to the i64 at offset 8. */
const std::string kTimes =
    ".program times\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i64 s1, 8\n sload.i32 s2, s0\n const.i32 s3, 1\n"
    " add.i32 s2, s2, s3\n sstore.i32 s2, s0\n loop s4, s1\n end\n exit\n";

std::string trace; // for what is unexpected

/* A context got no memory for a command, and is lost. */
struct Lost {};

/* Asks again where the host had no memory. */
void insist(const std::function<emu_status()>& call) {
  emu_status status = call();
  if (status == EMU_ERROR_HOST) {
    SAYS(last_error().cause, "no memory on the host");
    if (last_error().scope >= EMU_SCOPE_CONTEXT && last_error().command != 0) throw Lost();
    status = call();
  }
  expect_status(status, EMU_OK, (trace + "what was asked again").c_str(), __FILE__, __LINE__);
}

/* A reset that fails has not touched the launch that is under way, and none starts again. */
void reset(emu_context* context, emu_queue* queue, uint64_t address, uint32_t* host) {
  emu_program* program = nullptr;
  emu_buffer binary{};
  OK(api->assemble(kTimes.data(), kTimes.size(), &binary));
  insist([&] { return api->program_load(context, binary.data, binary.bytes, &program); });
  api->buffer_release(&binary);
  uint64_t sequence = 0;
  const struct { uint64_t address, rounds; } args{address, uint64_t(INT64_MAX)};
  sequence = fill(queue, address, 0, 4);
  insist([&] { return api->queue_synchronize(queue, sequence, UINT64_MAX); });
  OK(api->queue_launch(queue, program, kOneBlock, &args, sizeof args, 0, &sequence));
  insist([&] {
    usleep(20'000); // it is under way, unless the host is busy
    return api->queue_reset(queue);
  });
  OK(api->queue_copy_from_device(queue, host, address, 4, 0, &sequence));
  insist([&] { return api->queue_synchronize(queue, sequence, UINT64_MAX); });
  if (*host > 1) fail(__FILE__, __LINE__, trace + "a launch that was reset ran " + std::to_string(*host) + " times");
  OK(api->program_unload(program));
}

void use(emu_context* context) {
  emu_queue *queue = nullptr, *other = nullptr;
  emu_program* program = nullptr;
  void* pinned = nullptr;
  uint64_t pages[kPages] = {}, scattered = 0, sequence = 0;
  emu_buffer binary{};
  OK(api->assemble(kStore.data(), kStore.size(), &binary));
  insist([&] { return api->program_load(context, binary.data, binary.bytes, &program); });
  api->buffer_release(&binary);
  for (uint64_t& page : pages) insist([&] { return api->memory_alloc(context, kPage, &page); });
  for (size_t i = 0; i < kPages; i += 2) OK(api->memory_free(context, pages[i]));
  insist([&] { return api->memory_alloc(context, kPages / 2 * kPage, &scattered); });
  insist([&] { return api->host_alloc(context, 4096, &pinned); });
  insist([&] { return api->queue_create(context, EMU_QUEUE_COMPUTE, 0, &queue); });
  insist([&] { return api->queue_create(context, EMU_QUEUE_COPY, 0, &other); });
  insist([&] { return api->activity_enable(context, 1); });
  const struct { uint64_t address, value; } args{scattered, 0xdecafbad};
  OK(api->queue_launch(queue, program, kOneBlock, &args, sizeof args, 0, &sequence));
  OK(api->queue_wait(other, queue, sequence, nullptr));
  OK(api->queue_copy_from_device(other, pinned, scattered, 4, 0, &sequence));
  insist([&] { return api->queue_synchronize(other, sequence, UINT64_MAX); });
  CHECK(*static_cast<uint32_t*>(pinned) == 0xdecafbad);
  emu_activity activities[8];
  size_t count = 0;
  uint64_t dropped = 0;
  insist([&] { return api->activity_read(context, activities, 8, &count, &dropped); });
  CHECK(count + dropped == 3);
  reset(context, queue, scattered, static_cast<uint32_t*>(pinned));
  OK(api->queue_destroy(queue));
  OK(api->host_free(context, pinned));
  OK(api->program_unload(program));
  OK(api->memory_free(context, scattered));
}

/* What the owner asks for is done once, or not at all. */
void own(emu_device* device) {
  emu_fault slow = fault_of(EMU_FAULT_SLOW), listed[2];
  slow.factor = 2;
  uint64_t number = 0;
  size_t count = 0;
  insist([&] { return api->fault_inject(device, &slow, &number); });
  insist([&] { return api->fault_list(device, listed, 2, &count); });
  if (count != 1 || listed[0].number != number) fail(__FILE__, __LINE__, trace + "a fault without its number");
  insist([&] { return api->fault_clear(device, number); });
  const Image image = make_image("1.1.0", 1, 1000);
  const auto pending = [&] {
    emu_firmware_info info{};
    info.size = sizeof info;
    insist([&] { return api->firmware_info(device, &info); });
    return info.pending;
  };
  const auto changes = [&](const auto& change, uint32_t from, uint32_t to) {
    const emu_status status = change();
    if (const uint32_t now = pending(); now != (status == EMU_OK ? to : from)) {
      fail(__FILE__, __LINE__, trace + api->status_name(status) + ", and slot " + std::to_string(now) + " is pending");
    }
    if (status != EMU_OK) OK(change());
  };
  insist([&] { return install(device, image); });
  changes([&] { return api->firmware_activate(device); }, EMU_NO_SLOT, 1);
  changes([&] { return api->firmware_rollback(device); }, 1, EMU_NO_SLOT);
  insist([&] { return api->device_reset(device); });
}

void live() {
  emu_device* device = nullptr;
  insist([&] { return api->device_open(0, &device); });
  own(device);
  for (bool done = false; !done;) {
    emu_context* context = nullptr;
    insist([&] { return api->context_create(device, &context); });
    try {
      use(context);
      done = true;
    } catch (const Lost&) {
    }
    OK(api->context_destroy(context));
  }
  api->device_close(device);
}

/* A client that ends its connection, and leaves everything to emud. */
void leave() {
  const auto greet = [](Descriptor& socket) {
    socket = connect_raw();
    return shake(socket.get(), kHelloMagic, EMU_DRIVER_INTERFACE);
  };
  Descriptor socket;
  Welcome welcome = greet(socket);
  if (welcome.status == EMU_ERROR_HOST) {
    SAYS(welcome.cause, "no memory on the host");
    welcome = greet(socket);
  }
  CHECK(welcome.status == EMU_OK);
  const auto insist_on = [&](RequestKind kind, uint64_t context, uint64_t bytes) {
    Reply reply = ask(socket.get(), kind, context, 0, 0, bytes).reply;
    if (reply.status == EMU_ERROR_HOST) {
      SAYS(reply.cause, "no memory on the host");
      reply = ask(socket.get(), kind, context, 0, 0, bytes).reply;
    }
    CHECK(reply.status == EMU_OK);
    return reply.value;
  };
  const uint64_t context = insist_on(RequestKind::context_create, 0, 0);
  insist_on(RequestKind::memory_alloc, context, kPage);
  insist_on(RequestKind::queue_create, context, 0);
}

} // namespace

CASE(allocation_failures) {
  const std::string path = folder() + "/allocations";
  std::ofstream(path) << std::string(sizeof(Allocations), '\0');
  setenv(kAllocationsFile, path.c_str(), 1);
  Allocations& allocations = *map_allocations(path.c_str());
  const Served device({"--memory", std::to_string(kPages * kPage), "--threads", "2"});
  const std::string emud = std::to_string(device.pid());
  const int64_t descriptors_before = descriptors(emud);
  live(); // buffers that grow once have grown after it: what is there stays the same from one life to the next
  leave();
  const auto is_idle = [&] { return descriptors(emud) == descriptors_before && mappings(emud, "emu-") == 0; };
  CHECK(eventually(is_idle));
  const int64_t live_before = settled([&] { return int64_t(allocations.live); });
  uint64_t number = 0;
  for (bool failed = true; failed;) {
    allocations.count = 0;
    allocations.fail_at = ++number;
    trace = "allocation " + std::to_string(number) + " fails: ";
    live();
    leave();
    failed = allocations.count >= number;
    allocations.fail_at = 0;
    CHECK(is_running(device.pid()));
    if (!eventually([&] { return is_idle() && allocations.live == live_before; }, 5)) {
      fail(__FILE__, __LINE__,
           trace + "expected as before " + std::to_string(live_before) + " allocations, " +
               std::to_string(descriptors_before) + " descriptors and no mapping, got " +
               std::to_string(allocations.live) + ", " + std::to_string(descriptors(emud)) + " and " +
               std::to_string(mappings(emud, "emu-")));
    }
  }
  CHECK(number > 50); // they are counted
  std::printf("%llu allocations failed, one at a time\n", static_cast<unsigned long long>(number - 1));
}
