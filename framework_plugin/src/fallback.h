// What happens to an operator without a device program: the policy and its counts.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <vector>

namespace emu {

enum class FallbackPolicy { error, warn, allow };

// Raised by a kernel, before it writes anything, that has no device program for these arguments:
// its operator falls back. The text says what it is that the device lacks.
struct Unsupported final : c10::NotImplementedError {
  using NotImplementedError::NotImplementedError;
};
template <class... Part>
[[noreturn]] void unsupported(const Part&... what) {
  throw Unsupported({__func__, __FILE__, __LINE__}, c10::str(what...));
}

// While it lives, the calling thread's fallback is told for this reason.
class FallbackReason {
 public:
  explicit FallbackReason(const Unsupported& why);
  ~FallbackReason();
  FallbackReason(const FallbackReason&) = delete;
  FallbackReason& operator=(const FallbackReason&) = delete;

 private:
  std::string outer_;
};

// Applies the policy to one operator that is about to run on the host: raises, or warns and counts.
void note_fallback(const std::string& name, const std::string& why);
// The boxed kernel of every operator without one: the policy, then the host.
void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);
// `name` without its namespace, such as add.Tensor.
c10::OperatorHandle operator_named(const std::string& name);

// `text` is error, warn or allow; false for anything else.
bool set_fallback_policy(const std::string& text);
const char* fallback_policy() noexcept;

std::vector<std::pair<std::string, uint64_t>> fallback_counts();
void reset_fallback_counts();

}  // namespace emu
