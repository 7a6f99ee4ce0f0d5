// What ran: a counter for each operator the plugin implements, and the operator's name
// tied to the device commands it submits while activity is recorded. An operator whose kernel
// turns out to have no device program for its arguments runs, and counts, as a fallback.
#pragma once

#include <ATen/core/IListRef.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "fallback.h"

namespace emu {

struct Counter {
  explicit Counter(const char* operator_name);

  const char* name;
  uint64_t id;  // from 1
  std::atomic<uint64_t> calls{0};
  Counter* next;
};

Counter* first_counter() noexcept;
const char* counter_name(uint64_t id) noexcept;  // nullptr when there is none
void set_recording(bool on) noexcept;
bool recording() noexcept;
// The commands of an operator carry kCorrelations + its id: smaller numbers are the program's own.
constexpr uint64_t kCorrelations = uint64_t{1} << 32;
void push_correlation(uint64_t id) noexcept;
void pop_correlation() noexcept;

// Id of the operator that the calling thread is in, the one that was called from outside; 0 in none.
uint64_t outermost_operator() noexcept;
uint64_t exchange_outermost_operator(uint64_t id) noexcept;

class OperatorScope {
 public:
  explicit OperatorScope(Counter& counter) : recorded_(recording()), outer_(outermost_operator()) {
    if (outer_ == 0) exchange_outermost_operator(counter.id);
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    if (C10_UNLIKELY(recorded_)) push_correlation(counter.id);
  }
  ~OperatorScope() {
    exchange_outermost_operator(outer_);
    if (C10_UNLIKELY(recorded_)) pop_correlation();
  }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  bool recorded_;
  uint64_t outer_;
};

template <size_t length>
struct Name {
  char text[length]{};
  constexpr Name(const char (&from)[length]) {  // NOLINT: a literal stands for its name
    for (size_t k = 0; k < length; ++k) text[k] = from[k];
  }
};

template <Name name>
Counter& counter() {
  static auto* made = new Counter(name.text);
  return *made;
}

// Where an operator's tensors may be: on one device, or anywhere, where its kernel looks for itself. A
// TensorIterator does, and lets a number be a CPU tensor.
enum class Devices { one, any };

// Refuses, in PyTorch's words, tensors of different devices among an operator's arguments.
class SameDevice {
 public:
  explicit SameDevice(const char* operator_name) : operator_(operator_name) {}

  template <class Argument>
  void look(const Argument& argument) {
    if constexpr (std::is_same_v<Argument, at::Tensor>) {
      look_at(argument);
    } else if constexpr (std::is_same_v<Argument, std::optional<at::Tensor>>) {
      if (argument.has_value()) look_at(*argument);
    } else if constexpr (std::is_same_v<Argument, at::TensorList> || std::is_same_v<Argument, at::ITensorListRef>) {
      for (const at::Tensor& tensor : argument) look_at(tensor);
    }
    ++place_;
  }

 private:
  void look_at(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!device_.has_value()) device_ = tensor.device();
    if (C10_UNLIKELY(*device_ != tensor.device())) refuse(tensor);
  }
  [[noreturn]] void refuse(const at::Tensor& tensor) const;

  const char* operator_;
  size_t place_ = 0;
  std::optional<c10::Device> device_;
};

template <Name name, auto function, Devices devices = Devices::one, class Signature = decltype(function)>
struct Counted;
template <Name name, auto function, Devices devices, class Result, class... Argument>
struct Counted<name, function, devices, Result (*)(Argument...)> {
  static Result call(Argument... arguments) {
    if constexpr (devices == Devices::one) {
      SameDevice same(name.text);
      (same.look(arguments), ...);
    }
    try {
      const OperatorScope scope(counter<name>());
      return function(arguments...);
    } catch (const Unsupported& why) {
      counter<name>().calls.fetch_sub(1, std::memory_order_relaxed);
      const FallbackReason reason(why);
      return c10::impl::BoxedKernelWrapper<Result(Argument...)>::call(
          c10::BoxedKernel::makeFromFunction<&fall_back>(), operator_named(name.text), c10::DispatchKeySet(),
          std::forward<Argument>(arguments)...);
    }
  }
};

// Registers `function` as the native kernel of the operator, counted under the operator's name.
#define EMU_NATIVE(library, name, ...) library.impl(name, TORCH_FN((&::emu::Counted<name, __VA_ARGS__>::call)))
#define EMU_NATIVE_ANYWHERE(library, name, ...) EMU_NATIVE(library, name, __VA_ARGS__, ::emu::Devices::any)

}  // namespace emu
