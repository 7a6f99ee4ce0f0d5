// The C interface of libtorch_emu.so, for the Python package, and the torch stamp.
//
// Functions give 0, or -1 with a message of the calling thread from `torch_emu_last_error`.
// Texts are written into the caller's buffer: the length needed is given, and nothing is
// written past `capacity`.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/headeronly/version.h>

#include <cstring>
#include <exception>
#include <string>

#include "bounds.h"
#include "counts.h"
#include "exit.h"
#include "fallback.h"
#include "generator.h"
#include "runtime.h"

#define EMU_EXPORT extern "C" __attribute__((visibility("default")))
#define EMU_TEXT_OF(value) #value
#define EMU_TEXT(value) EMU_TEXT_OF(value)

// Read from the file's bytes before it is loaded; the other copy is stamp.json beside the library.
EMU_EXPORT const char torch_emu_stamp[] __attribute__((used, section(".emu.torch"))) =
    "EMU-TORCH-STAMP {\"torch\": \"" EMU_TEXT(TORCH_VERSION_MAJOR) "." EMU_TEXT(TORCH_VERSION_MINOR) "." EMU_TEXT(
        TORCH_VERSION_PATCH) "\", \"plugin\": \"" EMU_PLUGIN_VERSION "\"}\n";

namespace {

thread_local std::string last_error;

template <class Work>
int guarded(const Work& work) {
  try {
    work();
    return 0;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return -1;
}

size_t give(const std::string& text, char* out, size_t capacity) {
  if (capacity > 0) {
    const size_t kept = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), kept);
    out[kept] = 0;
  }
  return text.size();
}

c10::DeviceIndex index(int device) { return static_cast<c10::DeviceIndex>(device); }

}  // namespace

EMU_EXPORT size_t torch_emu_last_error(char* out, size_t capacity) { return give(last_error, out, capacity); }

EMU_EXPORT int torch_emu_init(const char* runtime_path, const char* driver_path, const char* fallback) {
  return guarded([&] {
    TORCH_CHECK(emu::set_fallback_policy(fallback), "TORCH_EMU_FALLBACK: expected error, warn or allow, got `", fallback,
                "`");
    std::string why;
    TORCH_CHECK(emu::load_runtime(runtime_path, driver_path, why), why);
  });
}

EMU_EXPORT int torch_emu_device_count() { return emu::device_count(); }
EMU_EXPORT int torch_emu_current_device() { return emu::current_device(); }
EMU_EXPORT int torch_emu_set_device(int device) {
  return guarded([&] { emu::set_current_device(device); });
}

EMU_EXPORT int torch_emu_set_fallback(const char* policy) {
  return guarded([&] {
    TORCH_CHECK(emu::set_fallback_policy(policy), "fallback policy: expected error, warn or allow, got `", policy, "`");
  });
}
EMU_EXPORT const char* torch_emu_fallback() { return emu::fallback_policy(); }

// One line each: way, operator, count, parted by tabs. Operators that did not run are left out.
EMU_EXPORT size_t torch_emu_counts(char* out, size_t capacity) {
  std::string text;
  for (const emu::Counter* counter = emu::first_counter(); counter != nullptr; counter = counter->next) {
    const uint64_t calls = counter->calls.load(std::memory_order_relaxed);
    if (calls != 0) text += "native\taten::" + std::string(counter->name) + "\t" + std::to_string(calls) + "\n";
  }
  for (const auto& [name, calls] : emu::fallback_counts()) text += "fallback\t" + name + "\t" + std::to_string(calls) + "\n";
  return give(text, out, capacity);
}
EMU_EXPORT void torch_emu_reset_counts() {
  for (emu::Counter* counter = emu::first_counter(); counter != nullptr; counter = counter->next) counter->calls = 0;
  emu::reset_fallback_counts();
}

EMU_EXPORT uint64_t torch_emu_bookkeeping_bytes(int device) { return emu::bounds_bytes_read(device); }
EMU_EXPORT void torch_emu_set_recording(int on) { emu::set_recording(on != 0); }
EMU_EXPORT const char* torch_emu_operator_name(uint64_t correlation) {
  const char* name = correlation > emu::kCorrelations ? emu::counter_name(correlation - emu::kCorrelations) : nullptr;
  return name == nullptr ? "" : name;
}

// Default generator of a device: its state is 16 bytes, seed and offset.
EMU_EXPORT int torch_emu_get_state(int device, uint64_t* seed, uint64_t* offset) {
  return guarded([&] {
    at::Generator generator = emu::default_generator(index(device));
    const std::lock_guard lock(generator.mutex());
    *seed = generator.current_seed();
    *offset = generator.unsafeGetGeneratorImpl()->get_offset();
  });
}
EMU_EXPORT int torch_emu_set_state(int device, uint64_t seed, uint64_t offset) {
  return guarded([&] {
    at::Generator generator = emu::default_generator(index(device));
    const std::lock_guard lock(generator.mutex());
    generator.unsafeGetGeneratorImpl()->set_current_seed(seed);
    generator.unsafeGetGeneratorImpl()->set_offset(offset);
  });
}

// Called once, before the interpreter closes. A thread that ends a backward still drops what Python owns,
// and one that starts, or returns from an operator, takes the interpreter's lock: each aborts the process
// when the interpreter is closing. So autograd's threads are taken past all work given so far, by a
// backward that leaves nothing of Python behind, and then other threads stay in their next launch.
EMU_EXPORT int torch_emu_prepare_exit() {
  const int status = guarded([] {
    if (!emu::threads_noted()) return;
    emu::run_for_a_while([] {
      for (int device = 0; device < emu::device_count(); ++device) {
        const auto options = at::TensorOptions(c10::Device(emu::kDeviceType, index(device))).dtype(at::kFloat);
        const at::Tensor leaf = at::empty({1}, options).requires_grad_(true);
        torch::autograd::grad({leaf.view({1})}, {leaf}, {at::empty({1}, options)});
      }
    });
  });
  emu::park_other_threads();
  return status;
}
