#include "runtime.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cctype>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace emu {
namespace {

std::atomic<const emurt_api*> table{nullptr};
const std::thread::id loading_thread = std::this_thread::get_id();
std::atomic<bool> other_threads{false};
thread_local int thread_device = 0;
thread_local std::array<emurt_stream, kMaxDevices> thread_streams{};
// Device and stream of each loss that was raised.
std::mutex losses_mutex;
std::set<std::pair<int32_t, uint64_t>> losses;
// What has to be given up to go on: emu_scope of the driver interface.
constexpr std::array scopes{"command", "queue", "context", "device", "host"};

// What is wrong and what to do, as two sentences: the driver's begin with a small letter, the runtime's do not.
std::string told(const emurt_error& error) {
  std::string text = error.cause;
  if (error.mend[0] == 0) return text;
  text += ". ";
  text += static_cast<char>(std::toupper(static_cast<unsigned char>(error.mend[0])));
  return text + (error.mend + 1);
}

}  // namespace

bool load_runtime(const char* path, const char* driver_path, std::string& why) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = std::string("the runtime library does not load: ") + dlerror();
    return false;
  }
  auto get = reinterpret_cast<emurt_get_api_fn>(dlsym(library, "emurt_get_api"));
  if (get == nullptr) {
    why = std::string(path) + " has no emurt_get_api: it is not the runtime library";
    return false;
  }
  emurt_error error{};
  error.size = sizeof error;
  const emurt_api* got = get(EMURT_INTERFACE, driver_path, &error);
  if (got == nullptr || got->size < sizeof(emurt_api)) {
    why = got == nullptr ? told(error)
                         : "the runtime's table is shorter than interface " + std::to_string(EMURT_INTERFACE) + " needs";
    return false;
  }
  table.store(got, std::memory_order_release);
  return true;
}

bool runtime_loaded() { return table.load(std::memory_order_acquire) != nullptr; }

const emurt_api& api() {
  const emurt_api* loaded = table.load(std::memory_order_acquire);
  TORCH_CHECK(loaded != nullptr, "emu: the runtime is not loaded; import torch_emu instead of loading its library");
  return *loaded;
}

void raise_last(const char* action) { raise(last_error(), action); }

emurt_error last_error() {
  emurt_error error{};
  error.size = sizeof error;
  api().last_error(&error);
  return error;
}

bool forget_loss(int device, uint64_t stream) {
  const std::lock_guard lock(losses_mutex);
  return losses.erase({device, stream}) != 0;
}

void raise(const emurt_error& error, const char* action) {
  const int32_t status = error.status;
  if (error.scope == kScopeOfQueue && error.stream != UINT64_MAX) {
    const std::lock_guard lock(losses_mutex);
    losses.insert({error.device, error.stream});
  }
  std::string text = std::string("emu: ") + action + " failed: " + told(error) + " [" + api().status_name(status);
  if (error.scope > 0 && error.scope < static_cast<int32_t>(scopes.size()))
    text += std::string(", scope ") + scopes[static_cast<size_t>(error.scope)];
  if (error.program[0] != 0) text += std::string(", program ") + error.program;
  if (error.command != 0 && error.stream != UINT64_MAX) text += ", stream " + std::to_string(error.stream);
  if (error.command != 0) text += ", command " + std::to_string(error.command);
  text += "]";
  if (status == 5 /* EMU_ERROR_OUT_OF_MEMORY */) TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  TORCH_CHECK(false, text);
}

int device_count() noexcept {
  const emurt_api* loaded = table.load(std::memory_order_acquire);
  uint32_t count = 0;
  if (loaded == nullptr || loaded->device_count(&count) != EMURT_OK) return 0;
  return static_cast<int>(std::min<uint32_t>(count, kMaxDevices));
}

int current_device() noexcept { return thread_device; }

void set_current_device(int device) {
  if (device == thread_device) return;
  const int count = device_count();
  TORCH_CHECK(device >= 0 && device < count, "emu: device index ", device, " is out of range: there ",
              count == 1 ? "is 1 device" : "are " + std::to_string(count) + " devices");
  thread_device = device;
}

void set_current_device_unchecked(int device) noexcept {
  if (device >= 0 && device < kMaxDevices) thread_device = device;
}

void note_thread() noexcept {
  if (std::this_thread::get_id() != loading_thread) other_threads.store(true, std::memory_order_relaxed);
}
bool threads_noted() noexcept { return other_threads.load(std::memory_order_relaxed); }

emurt_stream current_stream(int device) noexcept { return thread_streams[static_cast<size_t>(device)]; }

void set_current_stream(int device, emurt_stream stream) noexcept {
  thread_streams[static_cast<size_t>(device)] = stream;
}

}  // namespace emu
