// The boundary: the table of emu/runtime.h. Each entry checks its arguments, passes the
// gate, and turns what is thrown into a status and the thread's `last_error`.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "copy.h"
#include "correlation.h"
#include "process.h"

namespace emurt {
namespace {

thread_local emurt_error last = make_error(EMURT_OK, EMU_SCOPE_COMMAND, -1, "", "");

int32_t keep(const emurt_error& error) noexcept {
  last = error;
  return error.status;
}

// Copies as much as the caller's struct holds, whose first field is its size.
template <typename T>
void give(const T& value, T* out) {
  uint32_t size = 0;
  memcpy(&size, out, sizeof size);
  const uint32_t count = std::min<uint32_t>(size, sizeof value);
  memcpy(out, &value, count);
  memcpy(out, &count, sizeof count);
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    fail(EMU_ERROR_INVALID_ARGUMENT, -1, text("%s is null", name), "Give a pointer to where the result goes");
  }
}

// For structs that the caller sizes: smaller than the first version, `first` bytes, is a mistake.
template <typename T>
void require_sized(const T* out, const char* name, size_t first = sizeof(T)) {
  require(out, name);
  if (out->size < first) {
    fail(EMU_ERROR_INVALID_ARGUMENT, -1, text("%s: size is %u, expected at least %zu", name, out->size, first),
         "Set `size` to sizeof of the struct before the call");
  }
}

template <typename Body>
int32_t guarded(Body body) noexcept {
  try {
    body();
    return EMURT_OK;
  } catch (const Failure& failure) {
    return keep(failure.error());
  } catch (const std::bad_alloc&) {
    return keep(make_error(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, -1, "the host has no memory left for bookkeeping",
                           "Free host memory"));
  } catch (const std::exception& error) {
    return keep(make_error(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, -1, error.what(), ""));
  }
}

template <typename Body>
int32_t call(Body body) noexcept {
  return guarded([&] {
    Process& process = Process::get();
    process.require_usable();
    Gate::Pass pass(process.gate);
    process.require_usable();  // a shutdown may have been waited for
    body(process);
  });
}

Queue& queue_of(Process& process, Context& context, emurt_stream stream) {
  if (stream == nullptr) return context.default_queue();
  Queue* queue = process.streams.get(stream);
  if (&queue->context != &context) {
    fail(EMU_ERROR_INVALID_ARGUMENT, context.index,
         text("a stream of device %d was given for device %d", queue->context.index, context.index),
         "Use a stream of the same device");
  }
  return *queue;
}

// ---- process

void last_error(emurt_error* out) {
  if (out != nullptr) give(last, out);
}

int32_t shutdown() {
  return guarded([] { Process::get().shutdown(); });
}

// ---- devices

int32_t device_count(uint32_t* count) {
  return call([&](Process& process) {
    require(count, "count");
    *count = 0;
    *count = process.device_count();
    if (*count > 0) return;
    emu_error why{};
    why.size = sizeof why;
    process.driver().last_error(&why);
    keep(make_error(why.status, why.scope, -1, why.cause, why.mend));
  });
}

int32_t device_properties(int32_t device, emurt_device_properties* out) {
  return call([&](Process& process) {
    require_sized(out, "properties", offsetof(emurt_device_properties, emud_index));
    emu_device_info info{};
    info.size = sizeof info;
    process.check(process.driver().device_info(process.device(device), &info), device);
    emurt_device_properties properties{};
    properties.cores = info.cores;
    properties.max_lanes = info.max_lanes;
    properties.interface_version = info.interface_version;
    properties.memory_bytes = info.memory_bytes;
    properties.clock_hertz = info.clock_hertz;
    properties.is_private = info.is_private;
    properties.emud_pid = info.emud_pid;
    properties.emud_index = info.index;
    memcpy(properties.name, info.name, sizeof info.name);
    memcpy(properties.uuid, info.uuid, sizeof info.uuid);
    memcpy(properties.stepping, info.stepping, sizeof info.stepping);
    memcpy(properties.firmware, info.firmware, sizeof info.firmware);
    memcpy(properties.driver, info.driver, sizeof info.driver);
    memcpy(properties.node, info.node, sizeof info.node);
    give(properties, out);
  });
}

int32_t device_telemetry(int32_t device, emurt_telemetry* out) {
  return call([&](Process& process) {
    require_sized(out, "telemetry", offsetof(emurt_telemetry, spent_matrix_ticks));
    emu_telemetry in{};
    in.size = sizeof in;
    process.check(process.driver().device_telemetry(process.device(device), &in), device);
    static_assert(sizeof(emu_telemetry) == sizeof(emurt_telemetry), "the two structs have the same fields");
    emurt_telemetry telemetry;
    memcpy(&telemetry, &in, sizeof telemetry);
    give(telemetry, out);
  });
}

int32_t power_mode_info(int32_t device, uint32_t index, emurt_power_mode* out) {
  return call([&](Process& process) {
    require_sized(out, "power mode");
    emu_power_mode in{};
    in.size = sizeof in;
    process.check(process.driver().power_mode_info(process.device(device), index, &in), device);
    static_assert(sizeof(emu_power_mode) == sizeof(emurt_power_mode), "the two structs have the same fields");
    emurt_power_mode mode;
    memcpy(&mode, &in, sizeof mode);
    give(mode, out);
  });
}

int32_t link_info(int32_t device, uint32_t index, emurt_link_info* out) {
  return call([&](Process& process) {
    require_sized(out, "link");
    emu_link_info in{};
    in.size = sizeof in;
    process.check(process.driver().link_info(process.device(device), index, &in), device);
    static_assert(sizeof(emu_link_info) == sizeof(emurt_link_info), "the two structs have the same fields");
    emurt_link_info link;
    memcpy(&link, &in, sizeof link);
    give(link, out);
  });
}

int32_t device_set_power_mode(int32_t device, uint32_t index) {
  return call([&](Process& process) {
    process.check(process.driver().device_set_power_mode(process.device(device), index), device);
  });
}

int32_t device_counters(int32_t device, emurt_counters* out) {
  return call([&](Process& process) {
    require_sized(out, "counters");
    const Counters& in = process.counters(device);
    emurt_counters counters{};
    counters.launches = in.launches;
    counters.copies_to_device = in.copies_to_device;
    counters.copies_from_device = in.copies_from_device;
    counters.copies_on_device = in.copies_on_device;
    counters.bytes_to_device = in.bytes_to_device;
    counters.bytes_from_device = in.bytes_from_device;
    counters.bytes_on_device = in.bytes_on_device;
    counters.module_hits = in.module_hits;
    counters.module_misses = in.module_misses;
    counters.synchronizations = in.synchronizations;
    give(counters, out);
  });
}

int32_t device_synchronize(int32_t device) {
  return call([&](Process& process) {
    Context* context = process.context_if_open(device);
    if (context == nullptr) return;
    context->counters.synchronizations += 1;
    context->drain();
  });
}

int32_t device_reset(int32_t device) {
  return guarded([&] {
    Process& process = Process::get();
    process.require_usable();
    process.reset(device);
  });
}

// ---- memory

int32_t memory_alloc(int32_t device, uint64_t bytes, emurt_stream stream, uint64_t* address) {
  return call([&](Process& process) {
    require(address, "address");
    Context& context = process.context(device);
    context.require_alive();
    *address = context.allocator.allocate(bytes, queue_of(process, context, stream));
  });
}

int32_t memory_free(int32_t device, uint64_t address) {
  return call([&](Process& process) {
    if (!process.old_memory.free(address)) process.context(device).allocator.free(address);
  });
}

int32_t memory_record(int32_t device, uint64_t address, emurt_stream stream) {
  return call([&](Process& process) {
    process.require_present(address);
    Context& context = process.context(device);
    context.allocator.record(address, queue_of(process, context, stream));
  });
}

int32_t memory_check(uint64_t address) {
  return guarded([&] { Process::get().require_present(address); });
}

int32_t memory_empty_cache(int32_t device) {
  return call([&](Process& process) {
    if (Context* context = process.context_if_open(device)) context->allocator.empty_cache();
  });
}

int32_t memory_stats(int32_t device, emurt_memory_stats* out) {
  return call([&](Process& process) {
    require_sized(out, "stats");
    Context* context = process.context_if_open(device);
    give(context != nullptr ? context->allocator.stats() : emurt_memory_stats{}, out);
  });
}

int32_t memory_reset_peaks(int32_t device) {
  return call([&](Process& process) {
    if (Context* context = process.context_if_open(device)) context->allocator.reset_peaks();
  });
}

int32_t host_alloc(uint64_t bytes, void** pointer) {
  return call([&](Process& process) {
    require(pointer, "pointer");
    *pointer = nullptr;
    if (bytes > 0) *pointer = process.any_context().pinned.take(bytes);
  });
}

int32_t host_free(void* pointer) {
  return call([&](Process& process) {
    if (pointer == nullptr) return;
    Context* context = process.context_of_pinned(pointer);
    if (context == nullptr) {
      if (process.old_pinned.give_back(pointer)) return;
      fail(EMU_ERROR_INVALID_ARGUMENT, -1, text("host_free: %p is not pinned memory of this process", pointer),
           "Give the pointer that host_alloc gave");
    }
    context->pinned.give_back(pointer);
  });
}

int32_t host_is_pinned(const void* pointer) {
  bool pinned = false;
  const int32_t status = call([&](Process& process) {
    Context* context = process.context_of_pinned(pointer);
    pinned = context != nullptr && context->pinned.contains(pointer, 1);
  });
  return status == EMURT_OK && pinned ? 1 : 0;
}

// ---- streams and events

int32_t stream_create(int32_t device, int32_t priority, emurt_stream* out) {
  return call([&](Process& process) {
    require(out, "stream");
    *out = process.streams.add(&process.context(device).take_queue(priority));
  });
}

int32_t stream_destroy(emurt_stream stream) {
  return call([&](Process& process) {
    Queue* queue = process.streams.take(stream);
    queue->context.give_back_queue(*queue);
  });
}

uint64_t stream_id(int32_t device, emurt_stream stream) {
  uint64_t id = kNoStream;
  call([&](Process& process) {
    id = stream == nullptr ? 0 : queue_of(process, process.context(device), stream).stream_id;
  });
  return id;
}

int32_t stream_query(int32_t device, emurt_stream stream, int32_t* done) {
  return call([&](Process& process) {
    require(done, "done");
    *done = Point::now(queue_of(process, process.context(device), stream)).passed() ? 1 : 0;
  });
}

int32_t stream_synchronize(int32_t device, emurt_stream stream) {
  return call([&](Process& process) {
    Context& context = process.context(device);
    context.counters.synchronizations += 1;
    queue_of(process, context, stream).drain();
  });
}

int32_t stream_wait_event(int32_t device, emurt_stream stream, emurt_event event) {
  return call([&](Process& process) {
    Context& context = process.context(device);
    Queue& queue = queue_of(process, context, stream);
    const Point point = process.events.get(event)->point();
    if (point.queue == &queue || point.passed()) return;
    if (&point.queue->context != &context) {
      point.wait();  // timelines of two devices meet on the host
      return;
    }
    queue.submit([&](emu_queue* handle, uint64_t, uint64_t* sequence) {
      return context.api.queue_wait(handle, point.queue->handle, point.sequence, sequence);
    });
  });
}

int32_t event_create(int32_t device, int32_t timing, emurt_event* out) {
  return call([&](Process& process) {
    require(out, "event");
    *out = process.events.add(std::make_shared<Event>(process.context(device), timing != 0));
  });
}

int32_t event_destroy(emurt_event event) {
  return call([&](Process& process) { process.events.take(event); });
}

int32_t event_record(emurt_event event, emurt_stream stream) {
  return call([&](Process& process) {
    const std::shared_ptr<Event> found = process.events.get(event);
    found->context().require_alive();
    found->record(queue_of(process, found->context(), stream));
  });
}

int32_t event_query(emurt_event event, int32_t* done) {
  return call([&](Process& process) {
    require(done, "done");
    *done = process.events.get(event)->point().passed() ? 1 : 0;
  });
}

int32_t event_synchronize(emurt_event event) {
  return call([&](Process& process) { process.events.get(event)->point().wait(); });
}

int32_t event_elapsed(emurt_event start, emurt_event end, double* device_milliseconds, double* host_milliseconds) {
  return call([&](Process& process) {
    const Event::Elapsed elapsed = Event::elapsed(*process.events.get(start), *process.events.get(end));
    if (device_milliseconds != nullptr) *device_milliseconds = elapsed.device_milliseconds;
    if (host_milliseconds != nullptr) *host_milliseconds = elapsed.host_milliseconds;
  });
}

// ---- commands

int32_t copy(int32_t device, emurt_stream stream, int32_t kind, void* host_pointer, uint64_t address,
             uint64_t other_address, uint64_t bytes) {
  return call([&](Process& process) {
    process.require_present(address);
    if (kind == EMURT_COPY_ON_DEVICE) process.require_present(other_address);
    Context& context = process.context(device);
    Queue& queue = queue_of(process, context, stream);
    switch (kind) {
      case EMURT_COPY_TO_DEVICE:
        if (bytes > 0) require(host_pointer, "host_pointer");
        return copy_to_device(context, queue, address, host_pointer, bytes);
      case EMURT_COPY_FROM_DEVICE:
        if (bytes > 0) require(host_pointer, "host_pointer");
        return copy_from_device(context, queue, host_pointer, address, bytes);
      case EMURT_COPY_ON_DEVICE: return copy_on_device(context, queue, address, other_address, bytes);
    }
    fail(EMU_ERROR_INVALID_ARGUMENT, device, text("copy: kind %d, expected 1 to 3", kind),
         "Use a value of emurt_copy_kind");
  });
}

int32_t fill(int32_t device, emurt_stream stream, uint64_t address, uint8_t value, uint64_t bytes) {
  return call([&](Process& process) {
    process.require_present(address);
    Context& context = process.context(device);
    Queue& queue = queue_of(process, context, stream);
    if (bytes == 0) return;
    queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
      return context.api.queue_fill(handle, address, value, bytes, correlation, sequence);
    });
  });
}

int32_t module_get(int32_t device, const char* program, size_t bytes, emurt_module* out) {
  return call([&](Process& process) {
    require(program, "text");
    require(out, "module");
    *out = process.context(device).modules.get(program, bytes);
  });
}

int32_t launch(int32_t device, emurt_stream stream, emurt_module module, const uint32_t grid[3], const void* args,
               size_t bytes) {
  return call([&](Process& process) {
    require(grid, "grid");
    if (bytes > 0) require(args, "args");
    Context& context = process.context(device);
    Queue& queue = queue_of(process, context, stream);
    const Module found = process.modules.get(module);
    if (found.context != &context) {
      fail(EMU_ERROR_INVALID_ARGUMENT, device,
           text("a module of device %d was launched on device %d", found.context->index, device),
           "Get the module for the device that it is launched on");
    }
    queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* sequence) {
      return context.api.queue_launch(handle, found.program, grid, args, bytes, correlation, sequence);
    });
    context.counters.launches.fetch_add(1, std::memory_order_relaxed);
  });
}

// ---- activity

int32_t activity_enable(int32_t on) {
  return call([&](Process& process) { process.activity().enable(process, on != 0); });
}

int32_t activity_read(emurt_activity* out, size_t capacity, size_t* count, uint64_t* dropped) {
  return guarded([&] {
    Process& process = Process::get();
    if (!process.is_shut_down()) process.require_usable();
    const Gate::Pass pass(process.gate);
    require(count, "count");
    if (capacity > 0) require(out, "out");
    uint64_t lost = 0;
    *count = process.activity().read(process, out, capacity, &lost);
    if (dropped != nullptr) *dropped = lost;
  });
}

const emurt_api table = {
    sizeof(emurt_api), EMURT_INTERFACE,
    last_error, status_name, shutdown,
    device_count, device_properties, device_telemetry, device_counters, device_synchronize, device_reset,
    memory_alloc, memory_free, memory_record, memory_empty_cache, memory_stats, memory_reset_peaks,
    host_alloc, host_free, host_is_pinned,
    stream_create, stream_destroy, stream_id, stream_query, stream_synchronize, stream_wait_event,
    event_create, event_destroy, event_record, event_query, event_synchronize, event_elapsed,
    copy, fill,
    module_get, launch,
    activity_enable, activity_read, correlation_push, correlation_pop,
    memory_check,
    power_mode_info, device_set_power_mode, link_info,
};

}  // namespace
}  // namespace emurt

extern "C" __attribute__((visibility("default"))) const emurt_api* emurt_get_api(uint32_t interface_version,
                                                                                 const char* driver_path,
                                                                                 emurt_error* error) {
  using namespace emurt;
  const int32_t status = guarded([&] {
    if (interface_version / 1000 != EMURT_INTERFACE_MAJOR || interface_version % 1000 > EMURT_INTERFACE_MINOR) {
      fail(EMU_ERROR_VERSION, -1,
           text("the caller needs runtime interface %u.%u, this libemurt offers %d.%d", interface_version / 1000,
                interface_version % 1000, EMURT_INTERFACE_MAJOR, EMURT_INTERFACE_MINOR),
           "Install versions of emu-runtime and its user that belong together: "
           "pip install --upgrade torch-emu emu-runtime");
    }
    Process::get().driver_library().load(driver_path);
  });
  if (error != nullptr) {
    emurt_error told = make_error(EMURT_OK, EMU_SCOPE_COMMAND, -1, "", "");
    if (status != EMURT_OK || guarded([] { Process::get().driver(); }) != EMURT_OK) told = last;
    give(told, error);
  }
  return status == EMURT_OK ? &table : nullptr;
}
