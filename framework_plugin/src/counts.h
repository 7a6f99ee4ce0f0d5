// What ran: a counter for each operator the plugin implements, and the operator's name
// tied to the device commands it submits while activity is recorded.
#pragma once

#include <torch/library.h>

#include <atomic>
#include <cstdint>

namespace emu {

struct Counter {
  explicit Counter(const char* operator_name);

  const char* name;
  uint64_t id;  // correlation: from 1
  std::atomic<uint64_t> calls{0};
  Counter* next;
};

Counter* first_counter() noexcept;
const char* counter_name(uint64_t id) noexcept;  // nullptr when there is none
void set_recording(bool on) noexcept;
bool recording() noexcept;
void push_correlation(uint64_t id) noexcept;
void pop_correlation() noexcept;

class OperatorScope {
 public:
  explicit OperatorScope(Counter& counter) : recorded_(recording()) {
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    if (C10_UNLIKELY(recorded_)) push_correlation(counter.id);
  }
  ~OperatorScope() {
    if (C10_UNLIKELY(recorded_)) pop_correlation();
  }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  bool recorded_;
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

template <Name name, auto function, class Signature = decltype(function)>
struct Counted;
template <Name name, auto function, class Result, class... Argument>
struct Counted<name, function, Result (*)(Argument...)> {
  static Result call(Argument... arguments) {
    const OperatorScope scope(counter<name>());
    return function(std::forward<Argument>(arguments)...);
  }
};

// Registers `function` as the native kernel of the operator, counted under the operator's name.
#define EMU_NATIVE(library, name, ...) library.impl(name, TORCH_FN((&::emu::Counted<name, __VA_ARGS__>::call)))

}  // namespace emu
