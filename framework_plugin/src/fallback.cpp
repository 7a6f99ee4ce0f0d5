#include "fallback.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/native_dropout_native.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <sstream>

#include "counts.h"
#include "generator.h"
#include "runtime.h"

namespace emu {
namespace {

std::atomic<FallbackPolicy> policy{FallbackPolicy::warn};
std::mutex mutex;
std::map<std::string, uint64_t>& counts() {
  static auto* all = new std::map<std::string, uint64_t>();
  return *all;
}

std::string describe(const torch::jit::Stack& stack, size_t arguments) {
  std::ostringstream text;
  const char* separator = "";
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    text << separator << value.toTensor().scalar_type() << value.toTensor().sizes();
    separator = ", ";
  }
  return text.str();
}

thread_local std::string reason;

}  // namespace

FallbackReason::FallbackReason(const Unsupported& why) : outer_(std::exchange(reason, why.msg())) {}
FallbackReason::~FallbackReason() { reason = std::move(outer_); }

void note_fallback(const std::string& name, const std::string& why) {
  const FallbackPolicy now = policy.load();
  TORCH_CHECK_NOT_IMPLEMENTED(
      now != FallbackPolicy::error, "emu: ", name, " has no device program (", why,
      ") and TORCH_EMU_FALLBACK is `error`. Use operators that have one, or set TORCH_EMU_FALLBACK to `warn` (run it on "
      "the host and say so once), `allow` (run it on the host in silence) or `error` (refuse, as now).");
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = ++counts()[name] == 1;
  }
  if (now == FallbackPolicy::warn && first)
    TORCH_WARN("emu: ", name, " has no device program (", why, ") and runs on the host, with a copy each way. Set "
               "TORCH_EMU_FALLBACK to `allow` to hide this or to `error` to refuse it.");
}

namespace {

void note(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string arguments = describe(stack, op.schema().arguments().size());
  note_fallback(c10::toString(op.operator_name()),
                reason.empty() ? "arguments: " + arguments : reason + "; arguments: " + arguments);
  reason.clear();  // it is not that of an operator called inside
}

}  // namespace

namespace {

// The host draws for an operator of the device from a generator of its own, which is seeded by the next place in the
// sequence of the device's: so a seed or state of that one says what comes. With a seed that is new they are the
// numbers that the same seed gives on the host.
void draw_for_device(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const auto index = schema.argumentIndexWithName("generator");
  if (!index) return;
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(schema.arguments().size());
  const auto given = (first + *index)->toOptional<at::Generator>();
  if (given && given->device().type() != kDeviceType) return;  // the host's own word
  const auto there = std::find_if(first, stack.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().device().type() == kDeviceType;
  });
  if (!given && there == stack.end()) return;
  at::Generator generator = given ? *given : default_generator(there->toTensor().device().index());
  const auto [seed, place] = generator.get<GeneratorImpl>()->reserve(1);
  *(first + *index) = at::detail::createCPUGenerator(seed + place * 0x9e3779b97f4a7c15u);
}

// Batch normalisation writes its running statistics, and most of its schemas don't say so: what the host wrote has to
// be brought back here. Its gradients, which have no momentum, only read them.
class RunningStatistics {
 public:
  RunningStatistics(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(schema.arguments().size());
    const auto training = schema.argumentIndexWithName("training");
    if (!schema.argumentIndexWithName("momentum") || schema.name() == "aten::_native_batch_norm_legit_no_training" ||
        (training && !(first + *training)->toBool()))
      return;
    for (const char* name : {"running_mean", "running_var"}) {
      const auto index = schema.argumentIndexWithName(name);
      if (!index || schema.arguments()[static_cast<size_t>(*index)].alias_info() != nullptr) continue;
      c10::IValue& argument = *(first + *index);
      if (!argument.isTensor() || !argument.toTensor().defined()) continue;
      pairs_.emplace_back(argument.toTensor(), argument.toTensor().cpu());
      argument = pairs_.back().second;
    }
  }
  void bring_back() const {
    for (const auto& [there, here] : pairs_) there.copy_(here);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

}  // namespace

void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  note(op, *stack);
  draw_for_device(op.schema(), *stack);
  const RunningStatistics statistics(op.schema(), *stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  statistics.bring_back();
}

c10::OperatorHandle operator_named(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + name.substr(0, dot)).c_str(),
                                                        dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
}

namespace {

// Convolutions reach a device of this kind under names of their own, which the CPU has no kernel for.
void fall_back_convolution(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  note(op, *stack);
  static const c10::OperatorHandle on_host = operator_named("convolution");
  at::native::cpu_fallback(on_host, stack, /*error_on_views=*/true);
}
void fall_back_convolution_backward(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  note(op, *stack);
  // The host's takes one argument more, the bias's sizes, after gradient, input and weight.
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const std::vector<int64_t> bias_sizes{first->toTensor().size(1)};
  stack->insert(first + 3, bias_sizes);
  static const c10::OperatorHandle on_host = operator_named("convolution_backward");
  at::native::cpu_fallback(on_host, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  // It is made of operators, and draws with one that knows the device's generator.
  EMU_NATIVE(library, "native_dropout", &at::native::native_dropout_cpu);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&fall_back_convolution>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&fall_back_convolution_backward>());
}

}  // namespace

bool set_fallback_policy(const std::string& text) {
  if (text == "error")
    policy = FallbackPolicy::error;
  else if (text == "warn")
    policy = FallbackPolicy::warn;
  else if (text == "allow")
    policy = FallbackPolicy::allow;
  else
    return false;
  return true;
}

const char* fallback_policy() noexcept {
  switch (policy.load()) {
    case FallbackPolicy::error: return "error";
    case FallbackPolicy::warn: return "warn";
    case FallbackPolicy::allow: return "allow";
  }
  return "";
}

std::vector<std::pair<std::string, uint64_t>> fallback_counts() {
  const std::lock_guard lock(mutex);
  return {counts().begin(), counts().end()};
}

void reset_fallback_counts() {
  const std::lock_guard lock(mutex);
  counts().clear();
}

}  // namespace emu
