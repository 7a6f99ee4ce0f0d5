// Softmax and layer norm: one program over rows forward; backward composed of the device's own operators.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/native/layer_norm.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>

#include <algorithm>
#include <bit>

#include "elementwise.h"
#include "launch.h"
#include "normalization_program.h"

namespace emu {
namespace {

using at::Tensor;
namespace meta = at::meta;
using Slots = NormalizationSlots;

const char kProgramKind = 0;

// Launches over `rows` rows; `args` lacks the length only.
void normalize(int device, Normalization what, int64_t rows, int64_t length, std::array<uint64_t, Slots::count>& args) {
  const auto lanes = std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(length, 64, kRowLanes)));
  what.lanes = static_cast<uint16_t>(lanes);
  what.whole = length <= kRowLanes;
  what.full = length == static_cast<int64_t>(lanes);
  args[Slots::length] = static_cast<uint64_t>(length);
  const ProgramKey key{&kProgramKind,
                       static_cast<uint64_t>(what.kind) | static_cast<uint64_t>(what.element) << 8 |
                           static_cast<uint64_t>(what.parameter) << 16 | static_cast<uint64_t>(what.weight) << 24 |
                           static_cast<uint64_t>(what.bias) << 25 | static_cast<uint64_t>(what.whole) << 26 |
                           static_cast<uint64_t>(what.full) << 27,
                       lanes};
  launch(device, key, [&what] { return write_program(what); }, Grid{blocks(rows, 1), 1, 1}, args.data(), Slots::count);
}

void check_half_to_float(bool half_to_float) {
  if (half_to_float) unsupported("softmax that converts half to float");
}

// The rows are those of the last dimension, so another one is moved there and back.
void softmax(Normalize kind, const Tensor& self, int64_t dim, const Tensor& out) {
  if (self.numel() == 0) return;
  if (!at::isFloatingType(self.scalar_type())) unsupported("softmax of ", self.scalar_type());
  const Element element = element_of(self.scalar_type(), "softmax");
  const auto last_there = [dim](const Tensor& tensor) {
    return tensor.dim() == 0 ? tensor.reshape({1}) : tensor.transpose(dim, -1);
  };
  const Tensor in = last_there(self).contiguous(), to = last_there(out);
  const Tensor rows = to.is_contiguous() ? to : at::empty_like(in);
  std::array<uint64_t, Slots::count> args{};
  args[Slots::in] = address(in.const_data_ptr());
  args[Slots::out] = address(rows.mutable_data_ptr());
  normalize(self.device().index(), {kind, element}, in.numel() / in.size(-1), in.size(-1), args);
  if (!rows.is_same(to)) to.copy_(rows);
}

struct Softmax : meta::structured__softmax {
  void impl(const Tensor& self, int64_t dim, bool half_to_float, const Tensor& out) {
    check_half_to_float(half_to_float);
    softmax(Normalize::softmax, self, at::maybe_wrap_dim(dim, self.dim()), out);
  }
};
struct LogSoftmax : meta::structured__log_softmax {
  void impl(const Tensor& self, int64_t dim, bool half_to_float, const Tensor& out) {
    check_half_to_float(half_to_float);
    softmax(Normalize::log_softmax, self, at::maybe_wrap_dim(dim, self.dim()), out);
  }
};
struct SoftmaxBackward : meta::structured__softmax_backward_data {
  void impl(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType, const Tensor& out) {
    check_type(output, grad.scalar_type());
    if (grad.numel() == 0) return;
    if (grad.dim() == 0) return void(const_cast<Tensor&>(out).fill_(0));
    const Tensor g = widened(grad), y = widened(output);
    const Tensor weighted = g.mul(y);
    out.copy_(weighted.sub(y.mul(weighted.sum(dim, true))));
  }
};
struct LogSoftmaxBackward : meta::structured__log_softmax_backward_data {
  void impl(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType, const Tensor& out) {
    check_type(output, grad.scalar_type());
    if (grad.numel() == 0) return;
    if (grad.dim() == 0) return void(const_cast<Tensor&>(out).fill_(0));
    const Tensor g = widened(grad);
    out.copy_(g.sub(widened(output).exp().mul_(g.sum(dim, true))));
  }
};

// The type of mean and 1 / deviation, and of weight and bias: float32 beside a half where those are float32, else
// that of the input, as on the CPU.
at::ScalarType parameter_type(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const at::ScalarType type = input.scalar_type();
  for (const Tensor* parameter : {&weight, &bias}) {
    if (!parameter->defined() || parameter->scalar_type() == type) continue;
    TORCH_CHECK(c10::isReducedFloatingType(type) && parameter->scalar_type() == at::kFloat,
                "layer_norm: expected weight and bias of ", type, ", or of Float beside a half, got ",
                parameter->scalar_type());
    return at::kFloat;
  }
  return type;
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, at::IntArrayRef shape,
                                                     const std::optional<Tensor>& given_weight,
                                                     const std::optional<Tensor>& given_bias, double epsilon) {
  Tensor weight = given_weight.value_or(Tensor()), bias = given_bias.value_or(Tensor());
  const auto [rows, length] = at::native::_check_layer_norm_inputs(input, shape, weight, bias);
  if (!at::isFloatingType(input.scalar_type())) unsupported("layer_norm of ", input.scalar_type());
  const at::ScalarType type = parameter_type(input, weight, bias);
  const Tensor in = input.contiguous(), out = at::empty_like(in);
  std::vector<int64_t> each(input.sizes().begin(), input.sizes().end());
  std::fill(each.end() - static_cast<ptrdiff_t>(shape.size()), each.end(), 1);
  const Tensor mean = at::empty(each, in.options().dtype(type)), rstd = at::empty_like(mean);
  if (rows == 0) return {out, mean, rstd};
  Normalization what{Normalize::layer_norm, element_of(in.scalar_type(), "layer_norm"), element_of(type, "layer_norm")};
  std::array<uint64_t, Slots::count> args{};
  args[Slots::in] = address(in.const_data_ptr());
  args[Slots::out] = address(out.mutable_data_ptr());
  args[Slots::epsilon] = argument_bits(epsilon, compute_type(what.element));
  args[Slots::mean] = address(mean.mutable_data_ptr());
  args[Slots::rstd] = address(rstd.mutable_data_ptr());
  if ((what.weight = weight.defined())) {
    weight = weight.to(type).contiguous();
    args[Slots::weight] = address(weight.const_data_ptr());
  }
  if ((what.bias = bias.defined())) {
    bias = bias.to(type).contiguous();
    args[Slots::bias] = address(bias.const_data_ptr());
  }
  normalize(in.device().index(), what, rows, length, args);
  return {out, mean, rstd};
}

// With y = (x - mean) * rstd and g the gradient times the weight, each over a row:
// rstd * (g - mean(g) - y * mean(g * y)).
std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                              at::IntArrayRef shape, const Tensor& mean,
                                                              const Tensor& rstd,
                                                              const std::optional<Tensor>& given_weight,
                                                              const std::optional<Tensor>& given_bias,
                                                              std::array<bool, 3> wanted) {
  const Tensor weight = given_weight.value_or(Tensor()), bias = given_bias.value_or(Tensor());
  at::native::_check_layer_norm_inputs(input, shape, weight, bias);
  if (!at::isFloatingType(input.scalar_type())) unsupported("layer_norm of ", input.scalar_type());
  const at::ScalarType type = parameter_type(input, weight, bias);
  check_type(grad, input.scalar_type());
  for (const Tensor* given : {&mean, &rstd, &weight})
    if (given->defined()) check_type(*given, type);
  const auto first = input.dim() - static_cast<int64_t>(shape.size());
  std::vector<int64_t> of_rows, over_rows;
  for (int64_t dim = 0; dim < input.dim(); ++dim) (dim < first ? over_rows : of_rows).push_back(dim);
  const Tensor g = widened(grad), y = widened(input).sub(widened(mean)).mul_(widened(rstd));
  Tensor to_input, to_weight, to_bias;
  const auto summed = [&](const Tensor& each, const Tensor& parameter) {
    const Tensor sum = over_rows.empty() ? each : each.sum(over_rows);
    return sum.to(parameter.defined() ? parameter.scalar_type() : input.scalar_type());
  };
  if (wanted[0]) {
    const Tensor scaled = weight.defined() ? g.mul(widened(weight)) : g;
    const Tensor inner = scaled.sub(scaled.mean(of_rows, true)).sub_(y.mul(scaled.mul(y).mean(of_rows, true)));
    to_input = inner.mul_(widened(rstd)).to(input.scalar_type());
  }
  if (wanted[1]) to_weight = summed(g.mul(y), weight);
  if (wanted[2]) to_bias = summed(g, bias);
  return {to_input, to_weight, to_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_STRUCTURED_FUNCTIONAL(library, "_softmax", Softmax);
  EMU_STRUCTURED_OUT(library, "_softmax.out", Softmax);
  EMU_STRUCTURED_FUNCTIONAL(library, "_log_softmax", LogSoftmax);
  EMU_STRUCTURED_OUT(library, "_log_softmax.out", LogSoftmax);
  EMU_STRUCTURED_FUNCTIONAL(library, "_softmax_backward_data", SoftmaxBackward);
  EMU_STRUCTURED_OUT(library, "_softmax_backward_data.out", SoftmaxBackward);
  EMU_STRUCTURED_FUNCTIONAL(library, "_log_softmax_backward_data", LogSoftmaxBackward);
  EMU_STRUCTURED_OUT(library, "_log_softmax_backward_data.out", LogSoftmaxBackward);
  EMU_NATIVE(library, "native_layer_norm", &native_layer_norm);
  EMU_NATIVE(library, "native_layer_norm_backward", &native_layer_norm_backward);
}

}  // namespace
}  // namespace emu
