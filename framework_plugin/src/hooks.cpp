// PyTorch's accelerator hooks: availability, pinned memory, storage resize and generators.
#include <ATen/CPUFunctions.h>
#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstring>
#include <mutex>

#include "generator.h"
#include "runtime.h"

namespace emu {
namespace {

void free_pinned(void* pointer) {
  if (pointer != nullptr && runtime_loaded()) (void)api().host_free(pointer);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    if (bytes != 0) check(api().host_alloc(bytes, &pointer), "pinned memory allocation");
    return {pointer, pointer, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return device >= 0 && device < device_count(); }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = getCurrentDevice();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override {
    return data != nullptr && runtime_loaded() && api().host_is_pinned(data) == 1;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static auto* allocator = new PinnedAllocator();
    return allocator;
  }
  at::Device getDeviceFromPtr(void*) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "emu: a device address does not tell its device; keep the tensor's device");
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "emu: this storage is not resizable");
    const int device = storage.device().index();
    const size_t kept = std::min(bytes, storage.nbytes());
    c10::DataPtr fresh;
    {
      const c10::DeviceGuard guard(storage.device());
      fresh = c10::GetAllocator(kDeviceType)->allocate(bytes);
    }
    if (kept != 0)
      check(api().copy(device, current_stream(device), EMURT_COPY_ON_DEVICE, nullptr, address(fresh.get()),
                       address(storage.data()), kept),
            "storage resize");
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
  }
};

const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace
}  // namespace emu
