#include "harness.h"

using namespace emu::test;

CASE(handles_are_checked) {
  emu_context* old_context = nullptr;
  emu_queue* old_queue = nullptr;
  emu_program* old_program = nullptr;
  emu_device* old_device = nullptr;
  {
    Setup setup;
    old_device = setup.device;
    old_context = setup.context;
    old_queue = setup.queue;
    old_program = setup.program(kEmpty);
  }
  uint64_t number = 0;
  REFUSED(EMU_ERROR_STALE_HANDLE, api->memory_alloc(old_context, 1, &number));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_fill(old_queue, 0, 0, 1, 0, nullptr));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_synchronize(old_queue, 0, 0));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->program_unload(old_program));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->context_destroy(old_context));
  emu_context* context = nullptr;
  REFUSED(EMU_ERROR_STALE_HANDLE, api->context_create(old_device, &context));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->context_destroy(nullptr));
  CHECK(api->queue_id(old_queue) == UINT32_MAX);
  api->device_close(old_device); // told to last_error only

  Setup setup; // after all of it the interface works
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_launch(setup.queue, old_program, kOneBlock, nullptr, 0, 0, nullptr));
  // A handle of another kind is none of this kind.
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_synchronize(reinterpret_cast<emu_queue*>(setup.context), 0, 0));
}

CASE(arguments_are_checked) {
  Setup setup;
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->device_count(nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->device_open(0, nullptr));
  emu_device* device = nullptr;
  REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(1000, &device));
  SAYS(last_error().cause, "1000");
  emu_device_info info{};
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->device_info(setup.device, &info)); // size is not set
  info.size = 16; // a caller with an older, shorter layout
  OK(api->device_info(setup.device, &info));
  CHECK(info.size == 16 && info.uuid[0] == '\0');
  emu_queue* queue = nullptr;
  const uint32_t two = 2; // as a C caller could give it
  emu_queue_kind no_kind;
  std::memcpy(&no_kind, &two, sizeof no_kind);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_create(setup.context, no_kind, 0, &queue));
  emu_program* empty = setup.program(kEmpty);
  const uint32_t no_blocks[3] = {1, 0, 1};
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_launch(setup.queue, empty, no_blocks, nullptr, 0, 0, nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_launch(setup.queue, empty, kOneBlock, "x", 1, 0, nullptr));
  emu_context* other = nullptr;
  emu_queue* foreign = nullptr;
  OK(api->context_create(setup.device, &other));
  OK(api->queue_create(other, EMU_QUEUE_COMPUTE, 0, &foreign));
  REFUSED(EMU_ERROR_NOT_SUPPORTED, api->queue_wait(setup.queue, foreign, 1, nullptr));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, api->queue_launch(foreign, empty, kOneBlock, nullptr, 0, 0, nullptr));
  OK(api->context_destroy(other));
  for (int i = 0; i < 30; ++i) OK(api->queue_create(setup.context, EMU_QUEUE_COPY, i, &queue));
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->queue_create(setup.context, EMU_QUEUE_COPY, 0, &queue)); // 32 with Setup's
  for (int status = EMU_OK; status <= EMU_ERROR_OUT_OF_BOUNDS; ++status) {
    CHECK(std::string(api->status_name(status)) != "UNKNOWN");
  }
  CHECK(std::string(api->status_name(99)) == "UNKNOWN");
}

CASE(programs_are_checked) {
  Setup setup;
  emu_buffer buffer{};
  const std::string bad = ".program bad\n.lanes 64\n.args 0\n frobnicate s0\n exit\n";
  REFUSED(EMU_ERROR_BAD_PROGRAM, api->assemble(bad.data(), bad.size(), &buffer));
  SAYS(last_error().cause, "4:"); // the line
  OK(api->assemble(kStore.data(), kStore.size(), &buffer));
  emu_buffer text{};
  OK(api->disassemble(buffer.data, buffer.bytes, &text));
  SAYS(static_cast<const char*>(text.data), "sstore");
  emu_program* program = nullptr;
  static_cast<unsigned char*>(buffer.data)[buffer.bytes - 1] ^= 0x5a;
  REFUSED(EMU_ERROR_BAD_PROGRAM, api->program_load(setup.context, buffer.data, buffer.bytes, &program));
  CHECK(program == nullptr);
  REFUSED(EMU_ERROR_BAD_PROGRAM, api->program_load(setup.context, buffer.data, 3, &program));
  api->buffer_release(&buffer);
  api->buffer_release(&text);
  program = setup.program(kEmpty);
  OK(api->program_unload(program));
  REFUSED(EMU_ERROR_STALE_HANDLE, api->queue_launch(setup.queue, program, kOneBlock, nullptr, 0, 0, nullptr));
}
