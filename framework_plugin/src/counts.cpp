#include "counts.h"

#include <ATen/core/op_registration/adaption.h>

#include <mutex>
#include <utility>
#include <vector>

#include "runtime.h"

namespace emu {
namespace {

std::atomic<Counter*> head{nullptr};
std::atomic<bool> recording_now{false};
thread_local uint64_t outermost = 0;
std::mutex mutex;
std::vector<Counter*>& by_id() {
  static auto* counters = new std::vector<Counter*>();
  return *counters;
}

}  // namespace

Counter::Counter(const char* operator_name) : name(operator_name) {
  const std::lock_guard lock(mutex);
  by_id().push_back(this);
  id = by_id().size();
  next = head.load();
  head.store(this);
}

Counter* first_counter() noexcept { return head.load(); }

const char* counter_name(uint64_t id) noexcept {
  const std::lock_guard lock(mutex);
  return id == 0 || id > by_id().size() ? nullptr : by_id()[id - 1]->name;
}

uint64_t outermost_operator() noexcept { return outermost; }
uint64_t exchange_outermost_operator(uint64_t id) noexcept { return std::exchange(outermost, id); }

void SameDevice::refuse(const at::Tensor& tensor) const {
  const auto& arguments = operator_named(operator_).schema().arguments();
  c10::impl::common_device_check_failure(*device_, tensor, operator_, arguments.at(place_).name().c_str());
  TORCH_INTERNAL_ASSERT(false);
}

void set_recording(bool on) noexcept { recording_now.store(on, std::memory_order_relaxed); }
bool recording() noexcept { return recording_now.load(std::memory_order_relaxed); }
void push_correlation(uint64_t id) noexcept { api().correlation_push(kCorrelations + id); }
void pop_correlation() noexcept { api().correlation_pop(); }

}  // namespace emu
