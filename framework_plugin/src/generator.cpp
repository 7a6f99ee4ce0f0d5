#include "generator.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
#include <vector>

#include "runtime.h"

namespace emu {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

int resolve(c10::DeviceIndex device) {
  const int index = device < 0 ? current_device() : device;
  TORCH_CHECK(index < kMaxDevices, "emu: device index ", index, " is out of range: at most ", kMaxDevices);
  return index;
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kDeviceType, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes), "emu: expected a generator state of ", kStateBytes,
              " bytes, got ", state.numel(), "; use a state that get_rng_state of this device gave");
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), state.data(), kStateBytes);
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::cpu::empty({static_cast<int64_t>(kStateBytes)}, at::kByte);
  const std::array<uint64_t, 2> words{seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), words.data(), kStateBytes);
  return state.getIntrusivePtr();
}

std::pair<uint64_t, uint64_t> GeneratorImpl::reserve(uint64_t count) {
  const std::lock_guard lock(mutex_);
  const uint64_t first = offset_;
  offset_ += count;
  return {seed_, first};
}

c10::DeviceType GeneratorImpl::device_type() { return kDeviceType; }

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

at::Generator make_generator(c10::DeviceIndex device) {
  return at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(resolve(device)));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* generators = [] {
    auto* made = new std::vector<at::Generator>();
    for (int index = 0; index < kMaxDevices; ++index)
      made->push_back(at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(index)));
    return made;
  }();
  return (*generators)[static_cast<size_t>(resolve(device))];
}

}  // namespace emu
