/* A client's life, step by step, and what of it a process holds. */
#ifndef EMU_TEST_LIFE_H
#define EMU_TEST_LIFE_H

#include <functional>
#include <string>
#include <vector>

#include "harness.h"

namespace emu::test {

/* Counts to the i64 at offset 0, then stores 1 to the address at offset 8: longer than a wait spins. */
inline const std::string kSlowStore =
    ".program slow_store\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i64 s1, 8\n loop s2, s0\n end\n const.i32 s3, 1\n"
    " sstore.i32 s3, s1\n exit\n";

struct Life {
  emu_device* device = nullptr;
  emu_context* context = nullptr;
  emu_queue *queue = nullptr, *copies = nullptr;
  emu_program* program = nullptr;
  emu_fence* fence = nullptr;
  void* pinned = nullptr;
  uint64_t address = 0, sequence = 0;
};

struct Step {
  const char* name;
  std::function<emu_status(Life&)> run;
};

template <typename T, typename Get>
emu_status got(const Get& get) {
  T out{};
  out.size = sizeof out;
  return get(&out);
}

inline emu_status load_program(Life& life) {
  emu_buffer binary{};
  emu_status status = api->assemble(kSlowStore.data(), kSlowStore.size(), &binary);
  if (status != EMU_OK) return status;
  status = api->program_load(life.context, binary.data, binary.bytes, &life.program);
  api->buffer_release(&binary);
  return status;
}

inline emu_status launch(Life& life) {
  const struct { uint64_t rounds, address; } args{300'000, life.address};
  return api->queue_launch(life.queue, life.program, kOneBlock, &args, sizeof args, 7, &life.sequence);
}

/* Records that a failed reading took are lost: then there are fewer. */
inline emu_status read_records(Life& life) {
  emu_activity records[8];
  size_t count = 0;
  uint64_t dropped = 0;
  return api->activity_read(life.context, records, 8, &count, &dropped);
}

inline const std::vector<Step> kSteps = {
    {"device_count",
     [](Life&) {
       uint32_t count = 0;
       const emu_status status = api->device_count(&count);
       // Why there is none is told beside it.
       return status == EMU_OK && count == 0 ? emu_status(last_error().status) : status;
     }},
    {"device_open", [](Life& life) { return api->device_open(0, &life.device); }},
    {"device_info",
     [](Life& life) { return got<emu_device_info>([&](auto* out) { return api->device_info(life.device, out); }); }},
    {"device_telemetry",
     [](Life& life) { return got<emu_telemetry>([&](auto* out) { return api->device_telemetry(life.device, out); }); }},
    {"context_create", [](Life& life) { return api->context_create(life.device, &life.context); }},
    {"memory_alloc", [](Life& life) { return api->memory_alloc(life.context, 4096, &life.address); }},
    {"host_alloc", [](Life& life) { return api->host_alloc(life.context, 4096, &life.pinned); }},
    {"program_load", load_program},
    {"queue_create", [](Life& life) { return api->queue_create(life.context, EMU_QUEUE_COMPUTE, 0, &life.queue); }},
    {"copy queue_create", [](Life& life) { return api->queue_create(life.context, EMU_QUEUE_COPY, 0, &life.copies); }},
    {"activity_enable", [](Life& life) { return api->activity_enable(life.context, 1); }},
    {"queue_launch", launch},
    {"queue_wait", [](Life& life) { return api->queue_wait(life.copies, life.queue, life.sequence, nullptr); }},
    {"queue_copy_from_device",
     [](Life& life) {
       return api->queue_copy_from_device(life.copies, life.pinned, life.address, 4, 0, &life.sequence);
     }},
    {"queue_synchronize", [](Life& life) { return api->queue_synchronize(life.copies, life.sequence, UINT64_MAX); }},
    {"fence_create", [](Life& life) { return api->fence_create(life.context, &life.fence); }},
    {"fence_export",
     [](Life& life) {
       emu_fence_token token{};
       return api->fence_export(life.fence, EMU_FENCE_MAY_SIGNAL, &token);
     }},
    {"queue_signal_fence",
     [](Life& life) { return api->queue_signal_fence(life.copies, life.fence, 1, 0, &life.sequence); }},
    {"fence_synchronize", [](Life& life) { return api->fence_synchronize(life.fence, 1, UINT64_MAX); }},
    {"queue_cancel",
     [](Life& life) {
       uint64_t first = 0;
       return api->queue_cancel(life.copies, life.sequence, 0, &first);
     }},
    {"fence_destroy", [](Life& life) { return api->fence_destroy(life.fence); }},
    {"activity_read", read_records},
    {"memory_info",
     [](Life& life) { return got<emu_memory_info>([&](auto* out) { return api->memory_info(life.context, out); }); }},
    {"queue_destroy", [](Life& life) { return api->queue_destroy(life.queue); }},
    {"program_unload", [](Life& life) { return api->program_unload(life.program); }},
    {"host_free", [](Life& life) { return api->host_free(life.context, life.pinned); }},
    {"memory_free", [](Life& life) { return api->memory_free(life.context, life.address); }},
    {"context_destroy", [](Life& life) { return api->context_destroy(life.context); }},
    {"device_close",
     [](Life& life) {
       api->device_close(life.device);
       return EMU_OK;
     }},
};

} // namespace emu::test

#endif
