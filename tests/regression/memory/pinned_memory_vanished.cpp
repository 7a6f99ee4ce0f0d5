/* Pinned host memory went with its context: a program that read a result there after a reset ended with a signal. It
 * stays plain memory of the process until it is freed. */
#include "harness.h"

using namespace emu::test;

CASE(pinned_memory_vanished) {
  emu_device* device = nullptr;
  emu_context* context = nullptr;
  OK(api->device_open(0, &device));
  OK(api->context_create(device, &context));
  void* pointer = nullptr;
  OK(api->host_alloc(context, 65536, &pointer));
  std::memset(pointer, 0x5a, 65536);
  OK(api->context_destroy(context));
  const auto* bytes = static_cast<const unsigned char*>(pointer);
  for (int i = 0; i < 65536; ++i) CHECK(bytes[i] == 0x5a);
  OK(api->host_free(context, pointer));
  api->device_close(device);
}
