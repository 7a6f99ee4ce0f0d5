/* The table of the driver interface. Each entry checks its arguments, looks its handles up
 * and calls what does the work; errors become a status in `guarded`. */
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "assemble.h"
#include "entry.h"
#include "find.h"
#include "sharing.h"
#include "status_name.h"
#include "stepping.h"

namespace emu::client {
namespace {

/* For what is too long for a request. */
Descriptor memfd_of(const char* name, const void* data, size_t bytes) {
  Descriptor fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd || write(fd.get(), data, bytes) != ssize_t(bytes)) throw host_error(std::string("memfd ") + name, errno);
  return fd;
}

emu_status device_count(uint32_t* count) {
  return guarded([&] {
    const Found found = find_devices();
    output(count) = uint32_t(found.count());
    if (found.why_none) set_last_error(found.why_none->error);
  });
}

emu_status device_open(uint32_t index, emu_device** out) {
  return guarded([&] { output(out) = tables().devices.add([&] { return open_device(index); }); });
}

void device_close(emu_device* device) {
  guarded([&] { tables().devices.remove(device, [](const auto&) {}); });
}

/* Asked each time: a reset may have started other firmware. */
emu_status device_info(emu_device* device, emu_device_info* out) {
  return guarded([&] { give_from(device, RequestKind::device_info, out); });
}

emu_status device_telemetry(emu_device* device, emu_telemetry* out) {
  return guarded([&] { give_from(device, RequestKind::telemetry_more, out); });
}

emu_status power_mode_info(emu_device* device, uint32_t index, emu_power_mode* out) {
  return guarded([&] { give_from(device, RequestKind::power_mode, out, index); });
}

emu_status device_set_power_mode(emu_device* device, uint32_t index) {
  return guarded([&] {
    tables().devices.get(device)->connection.request(of_device(RequestKind::set_power_mode, 0, index));
  });
}

emu_status firmware_info(emu_device* device, emu_firmware_info* out) {
  return guarded([&] { give_from(device, RequestKind::firmware_info, out); });
}

emu_status firmware_write(emu_device* device, uint64_t total, uint64_t offset, const void* data, size_t bytes) {
  return guarded([&] {
    require(data != nullptr && bytes > 0, "bytes of an image, got none");
    require(bytes <= kMaxFirmwareChunk, "at most 1048576 bytes of an image at once");
    const auto to = tables().devices.get(device);
    const Descriptor fd = memfd_of("emu-firmware", data, bytes);
    to->connection.request(of_device(RequestKind::firmware_write, offset, total, bytes), fd.get());
  });
}

emu_status firmware_activate(emu_device* device) {
  return guarded([&] { tables().devices.get(device)->connection.request(of_device(RequestKind::firmware_activate)); });
}

emu_status firmware_rollback(emu_device* device) {
  return guarded([&] { tables().devices.get(device)->connection.request(of_device(RequestKind::firmware_rollback)); });
}

emu_status device_reset(emu_device* device) {
  return guarded([&] { tables().devices.get(device)->connection.request(of_device(RequestKind::device_reset)); });
}

emu_status fault_inject(emu_device* device, const emu_fault* fault, uint64_t* number) {
  return guarded([&] {
    require(fault != nullptr, "a fault, got a null pointer");
    require(fault->size == sizeof *fault, "a fault whose `size` is set to its sizeof");
    output(number) = 0;
    const auto to = tables().devices.get(device);
    const Descriptor fd = memfd_of("emu-fault", fault, sizeof *fault);
    *number = to->connection.request(of_device(RequestKind::fault_inject, 0, 0, sizeof *fault), fd.get()).reply.value;
  });
}

emu_status fault_clear(emu_device* device, uint64_t number) {
  return guarded([&] {
    tables().devices.get(device)->connection.request(of_device(RequestKind::fault_clear, 0, number));
  });
}

emu_status fault_list(emu_device* device, emu_fault* out, size_t capacity, size_t* count) {
  return guarded([&] {
    require(out != nullptr || capacity == 0, "room for faults, got a null pointer");
    output(count) = 0;
    const Response response =
        tables().devices.get(device)->connection.request(of_device(RequestKind::fault_list, 0, capacity));
    *count = std::min(capacity, response.payload.size() / sizeof(emu_fault));
    if (*count != 0) std::memcpy(out, response.payload.data(), *count * sizeof(emu_fault));
  });
}

emu_status event_read(emu_device* device, uint64_t after, emu_event* out, size_t capacity, size_t* count,
                      uint64_t* dropped) {
  return guarded([&] {
    require(out != nullptr || capacity == 0, "room for events, got a null pointer");
    output(count) = 0;
    output(dropped) = 0;
    const auto from = tables().devices.get(device);
    while (*count < capacity) {
      const Response response =
          from->connection.request(of_device(RequestKind::event_read, after, capacity - *count));
      const size_t got = response.payload.size() / sizeof(emu_event);
      *dropped += response.reply.value;
      if (got == 0 || got > capacity - *count) return;
      std::memcpy(out + *count, response.payload.data(), got * sizeof(emu_event));
      *count += got;
      after = out[*count - 1].sequence;
    }
  });
}

template <uint32_t kCaller>
emu_status context_create(emu_device* device, emu_context** out) {
  return guarded([&] {
    output(out) = nullptr;
    const auto on = tables().devices.get(device);
    *out = tables().contexts.add([&] { return std::make_shared<Context>(on, kCaller); });
  });
}

emu_status context_destroy(emu_context* context) {
  return guarded([&] {
    tables().contexts.remove(context, [](const std::shared_ptr<Context>& gone) { gone->destroy(); });
  });
}

emu_status memory_alloc(emu_context* context, uint64_t bytes, uint64_t* address) {
  return guarded([&] {
    output(address) = 0;
    *address = tables().contexts.get(context)->request(RequestKind::memory_alloc, 0, 0, bytes).reply.value;
  });
}

emu_status memory_free(emu_context* context, uint64_t address) {
  return guarded([&] { tables().contexts.get(context)->request(RequestKind::memory_free, address); });
}

emu_status memory_protect(emu_context* context, uint64_t address, uint64_t bytes, uint32_t access) {
  return guarded(
      [&] { tables().contexts.get(context)->request(RequestKind::memory_protect, address, access, bytes); });
}

emu_status memory_info(emu_context* context, emu_memory_info* out) {
  return guarded([&] {
    const auto found = tables().contexts.get(context);
    give(found->device().connection.fetch<emu_memory_info>(found->message(RequestKind::memory_info)), out);
  });
}

emu_status host_alloc(emu_context* context, uint64_t bytes, void** pointer) {
  return guarded([&] {
    output(pointer) = nullptr;
    *pointer = tables().contexts.get(context)->host_alloc(bytes);
  });
}

emu_status host_free(emu_context* context, void* pointer) {
  return guarded([&] {
    if (!tables().orphans.free(pointer)) tables().contexts.get(context)->host_free(pointer);
  });
}

emu_status assemble_text(const char* text, size_t bytes, emu_buffer* out) {
  return guarded([&] {
    require(text != nullptr || bytes == 0, "the text of a program, got a null pointer");
    output(out) = assemble(text, bytes);
  });
}

emu_status disassemble_binary(const void* binary, size_t bytes, emu_buffer* out) {
  return guarded([&] {
    require(binary != nullptr || bytes == 0, "a binary, got a null pointer");
    output(out) = disassemble(binary, bytes);
  });
}

emu_status program_load(emu_context* context, const void* binary, size_t bytes, emu_program** out) {
  return guarded([&] {
    output(out) = nullptr;
    require(binary != nullptr && bytes > 0, "a binary, got none");
    const auto into = tables().contexts.get(context);
    const Descriptor fd = memfd_of("emu-program", binary, bytes);
    *out = tables().programs.add([&] {
      auto program = std::make_shared<Program>(Program{into, 0, 0});
      const Reply reply = into->request(RequestKind::program_load, 0, 0, bytes, fd.get()).reply;
      program->id = reply.value;
      program->argument_bytes = reply.count;
      return program;
    });
  });
}

emu_status program_unload(emu_program* program) {
  return guarded([&] {
    tables().programs.remove(program, [](const std::shared_ptr<Program>& gone) {
      gone->context->request(RequestKind::program_unload, gone->id);
    });
  });
}

emu_status queue_create(emu_context* context, emu_queue_kind kind, int32_t priority, emu_queue** out) {
  return guarded([&] {
    output(out) = nullptr;
    uint32_t number; // a C caller may give what is no enumerator
    static_assert(sizeof number == sizeof kind);
    std::memcpy(&number, &kind, sizeof number);
    const auto in = tables().contexts.get(context);
    *out = tables().queues.add([&] { return std::make_shared<Queue>(in, number, priority); });
  });
}

emu_status queue_destroy(emu_queue* queue) {
  return guarded([&] {
    tables().queues.remove(queue, [](const std::shared_ptr<Queue>& gone) { gone->destroy(); });
  });
}

emu_status queue_reset(emu_queue* queue) {
  return guarded([&] { tables().queues.get(queue)->reset(); });
}

uint32_t queue_id(emu_queue* queue) {
  uint32_t id = UINT32_MAX;
  guarded([&] { id = tables().queues.get(queue)->id(); });
  return id;
}

emu_status queue_launch(emu_queue* queue, emu_program* program, const uint32_t grid[3], const void* args, size_t bytes,
                        uint64_t correlation, uint64_t* sequence) {
  return guarded([&] {
    const auto to = tables().queues.get(queue);
    const auto what = tables().programs.get(program);
    require(what->context == to->context, "a program of the queue's context");
    require(grid != nullptr && grid[0] > 0 && grid[1] > 0 && grid[2] > 0, "a grid of at least one block");
    if (bytes != what->argument_bytes || (args == nullptr && bytes > 0)) {
      throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("arguments of the program: expected %llu bytes, got %zu",
                         static_cast<unsigned long long>(what->argument_bytes), args == nullptr ? 0 : bytes));
    }
    require(bytes <= kMaxArguments, "at most 4096 bytes of arguments");
    Command command = command_of(CommandKind::launch, correlation);
    command.target = what->id;
    command.length = to->context->device().pads_arguments ? whole_granules(bytes) : bytes;
    std::memcpy(command.grid, grid, sizeof command.grid);
    const uint64_t number = to->submit(command, args, bytes);
    if (sequence != nullptr) *sequence = number;
  });
}

emu_status queue_copy_to_device(emu_queue* queue, uint64_t address, const void* pointer, uint64_t bytes,
                                uint64_t correlation, uint64_t* sequence) {
  return submit(queue, CommandKind::copy_to_device, correlation, sequence, [&](Queue& to, Command& command) {
    const Context::Range range = to.context->pinned(pointer, bytes);
    command.target = address;
    command.source = range.buffer;
    command.offset = range.offset;
    command.length = bytes;
  });
}

emu_status queue_copy_from_device(emu_queue* queue, void* pointer, uint64_t address, uint64_t bytes,
                                  uint64_t correlation, uint64_t* sequence) {
  return submit(queue, CommandKind::copy_from_device, correlation, sequence, [&](Queue& to, Command& command) {
    const Context::Range range = to.context->pinned(pointer, bytes);
    command.target = range.buffer;
    command.source = address;
    command.offset = range.offset;
    command.length = bytes;
  });
}

emu_status queue_copy_on_device(emu_queue* queue, uint64_t to_address, uint64_t from, uint64_t bytes,
                                uint64_t correlation, uint64_t* sequence) {
  return submit(queue, CommandKind::copy_on_device, correlation, sequence, [&](Queue&, Command& command) {
    command.target = to_address;
    command.source = from;
    command.length = bytes;
  });
}

emu_status queue_fill(emu_queue* queue, uint64_t address, uint8_t value, uint64_t bytes, uint64_t correlation,
                      uint64_t* sequence) {
  return submit(queue, CommandKind::fill, correlation, sequence, [&](Queue&, Command& command) {
    command.target = address;
    command.source = value;
    command.length = bytes;
  });
}

emu_status queue_wait(emu_queue* queue, emu_queue* other, uint64_t value, uint64_t* sequence) {
  return submit(queue, CommandKind::wait, 0, sequence, [&](Queue& to, Command& command) {
    const auto awaited = tables().queues.get(other);
    if (awaited->context != to.context) {
      throw Error(EMU_ERROR_NOT_SUPPORTED, EMU_SCOPE_COMMAND, "a queue can wait only for one of its own context",
                  "synchronize the other queue on the host first");
    }
    require(awaited.get() != &to, "another queue: commands of one queue run in order anyway");
    command.target = awaited->id();
    command.source = value;
  });
}

emu_status queue_timestamp(emu_queue* queue, void* pointer, uint64_t correlation, uint64_t* sequence) {
  return submit(queue, CommandKind::timestamp, correlation, sequence, [&](Queue& to, Command& command) {
    require(reinterpret_cast<uintptr_t>(pointer) % alignof(emu_timestamp) == 0, "an 8-byte aligned pointer");
    const Context::Range range = to.context->pinned(pointer, sizeof(emu_timestamp));
    command.target = range.buffer;
    command.offset = range.offset;
  });
}

emu_status queue_cancel(emu_queue* queue, uint64_t from, uint32_t flags, uint64_t* first) {
  return guarded([&] {
    output(first) = 0;
    require((flags & ~EMU_CANCEL_RUNNING) == 0, "no flag but EMU_CANCEL_RUNNING");
    *first = tables().queues.get(queue)->cancel(from, flags);
  });
}

emu_status queue_completed(emu_queue* queue, uint64_t* value) {
  return guarded([&] { output(value) = tables().queues.get(queue)->completed(); });
}

emu_status queue_synchronize(emu_queue* queue, uint64_t value, uint64_t timeout_ns) {
  return synchronize([&] { return tables().queues.get(queue)->wait(value, timeout_ns); });
}

emu_status activity_enable(emu_context* context, int32_t on) {
  return guarded([&] { tables().contexts.get(context)->request(RequestKind::activity_enable, 0, on != 0 ? 1 : 0); });
}

emu_status activity_read(emu_context* context, emu_activity* out, size_t capacity, size_t* count, uint64_t* dropped) {
  return guarded([&] {
    require(out != nullptr || capacity == 0, "room for records, got a null pointer");
    output(count) = 0;
    output(dropped) = 0;
    const auto from = tables().contexts.get(context);
    while (*count < capacity) {
      const Response response = from->request(RequestKind::activity_read, 0, capacity - *count);
      const size_t got = response.payload.size() / sizeof(emu_activity);
      *dropped += response.reply.value;
      if (got == 0 || got > capacity - *count) return;
      std::memcpy(out + *count, response.payload.data(), got * sizeof(emu_activity));
      *count += got;
    }
  });
}

/* For callers of an older minor too: a context behaves as the one who made it knows. */
template <uint32_t kCaller>
constexpr emu_driver_api kApi = {
    sizeof(emu_driver_api), EMU_DRIVER_INTERFACE,
    get_last_error, status_name,
    device_count, device_open, device_close, device_info, device_telemetry,
    context_create<kCaller>, context_destroy,
    memory_alloc, memory_free, memory_info,
    host_alloc, host_free,
    assemble_text, disassemble_binary, release, program_load, program_unload,
    queue_create, queue_destroy, queue_id, queue_launch,
    queue_copy_to_device, queue_copy_from_device, queue_copy_on_device, queue_fill, queue_wait,
    queue_completed, queue_synchronize,
    activity_enable, activity_read,
    queue_timestamp,
    power_mode_info, device_set_power_mode,
    firmware_info, firmware_write, firmware_activate, firmware_rollback, device_reset, event_read,
    queue_reset, fault_inject, fault_clear, fault_list,
    queue_cancel,
    fence_create, fence_export, fence_import, fence_destroy, fence_value, fence_signal, fence_synchronize,
    queue_signal_fence, queue_wait_fence,
    link_info, link_set_up, queue_copy_peer,
    memory_protect,
};

template <uint32_t... kMinors>
const emu_driver_api* api_for(uint32_t minor, std::integer_sequence<uint32_t, kMinors...>) {
  constexpr const emu_driver_api* all[] = {&kApi<EMU_DRIVER_INTERFACE_MAJOR * 1000 + kMinors>...};
  return all[minor];
}

} // namespace
} // namespace emu::client

extern "C" __attribute__((visibility("default"))) const emu_driver_api* emu_driver_get_api(uint32_t interface_version,
                                                                                           emu_error* error) {
  using namespace emu::client;
  if (emu::interfaces_meet(interface_version, EMU_DRIVER_INTERFACE)) {
    return api_for(interface_version % 1000, std::make_integer_sequence<uint32_t, EMU_DRIVER_INTERFACE_MINOR + 1>());
  }
  set_last_error(Error(EMU_ERROR_VERSION, EMU_SCOPE_HOST,
                       format("driver interface %u.%u was asked for, and this libemudrv has %d.%d",
                              interface_version / 1000, interface_version % 1000, EMU_DRIVER_INTERFACE_MAJOR,
                              EMU_DRIVER_INTERFACE_MINOR),
                       format("install an emu-driver-shim of interface %u.%u or a newer minor",
                              interface_version / 1000, interface_version % 1000))
                     .error);
  get_last_error(error);
  return nullptr;
}
