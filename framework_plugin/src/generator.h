// Random number generators of the device: a Philox seed and an offset, 16 bytes of state.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace emu {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Seed, and the first of `count` 128-bit counters that are the caller's from now on. Takes the lock.
  std::pair<uint64_t, uint64_t> reserve(uint64_t count);

  static c10::DeviceType device_type();

 private:
  GeneratorImpl* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

at::Generator make_generator(c10::DeviceIndex device); // -1: of the current device
const at::Generator& default_generator(c10::DeviceIndex device);

}  // namespace emu
