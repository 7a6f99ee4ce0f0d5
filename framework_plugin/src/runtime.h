// The plugin's view of libemurt.so: the interface table, its errors as PyTorch's,
// and the calling thread's current device and streams.
//
// The table is given once, by `torch_emu_init`; nothing here opens a device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include "emu/runtime.h"

namespace emu {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
constexpr int kMaxDevices = 16;
constexpr int32_t kScopeOfQueue = 1;  // emu_scope of the driver interface

// Loads the runtime at `path`; false and a reason when it cannot be loaded or serves another interface.
bool load_runtime(const char* path, const char* driver_path, std::string& why);

// Raises when the runtime was never loaded.
const emurt_api& api();
bool runtime_loaded();

emurt_error last_error();  // of the runtime, on this thread
// Raises c10::Error (OutOfMemoryError where it is one) with the runtime's cause and mend.
[[noreturn]] void raise(const emurt_error& error, const char* action);
[[noreturn]] void raise_last(const char* action);
// Whether somebody was told, by `raise`, that the stream is lost. It is asked once: the stream goes.
bool forget_loss(int device, uint64_t stream);
inline void check(int32_t status, const char* action) {
  if (C10_UNLIKELY(status != EMURT_OK)) raise_last(action);
}

// Number of devices, 0 on any error; never raises.
int device_count() noexcept;

int current_device() noexcept;
void set_current_device(int device);          // raises when there is no such device
void set_current_device_unchecked(int device) noexcept;

// Autograd's device threads set their device when they start: whether a thread other than the one that
// loaded the plugin has done so.
void note_thread() noexcept;
bool threads_noted() noexcept;

emurt_stream current_stream(int device) noexcept;
void set_current_stream(int device, emurt_stream stream) noexcept;

// A c10 stream's id is the runtime's handle; 0 is the device's default stream.
inline emurt_stream handle(const c10::Stream& stream) { return reinterpret_cast<emurt_stream>(stream.id()); }
inline c10::Stream wrap(int device, emurt_stream stream) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device)),
                     reinterpret_cast<c10::StreamId>(stream));
}

// A device address for a command. Raises when the memory is from before a reset of its device: a program would fault.
inline uint64_t address(const void* pointer) {
  const auto at = reinterpret_cast<uint64_t>(pointer);
  check(api().memory_check(at), "use of a tensor");
  return at;
}

}  // namespace emu
