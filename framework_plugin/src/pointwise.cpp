// Elementwise operators with a structured meta function: registration only. The work is done
// by the generic kernels (structured.h) and the generic path (elementwise.h) from the rows.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/ops/add_meta.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold_meta.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/trunc_meta.h>

#include "elementwise.h"
#include "rows.h"

namespace emu {
namespace {

using at::OptionalScalarRef;
using at::OptionalTensorRef;
using at::Scalar;
using at::Tensor;
namespace meta = at::meta;

// An operator whose scalars are those of its row, in order; a row without scalars has them as
// operands already (PyTorch wraps them).
template <class Meta, const Row& row>
struct Pointwise : Meta {
  void impl(const Tensor&, const Tensor&) { run_elementwise(*this, row); }
  void impl(const Tensor&, const Tensor&, const Tensor&) { run_elementwise(*this, row); }
  void impl(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { run_elementwise(*this, row); }
  void impl(const Tensor&, const Scalar& x, const Tensor&) {
    if constexpr (row.scalars == 0)
      run_elementwise(*this, row);
    else
      run_elementwise(*this, row, {x});
  }
  void impl(const Tensor&, const Scalar& x, const Scalar& y, const Tensor&) { run_elementwise(*this, row, {x, y}); }
  void impl(const Tensor&, const Tensor&, const Scalar& x, const Tensor&) { run_elementwise(*this, row, {x}); }
  void impl(const Tensor&, const Tensor&, const Tensor&, const Scalar& x, const Tensor&) {
    run_elementwise(*this, row, {x});
  }
};

struct Add : meta::structured_add_Tensor {
  void impl(const Tensor&, const Tensor&, const Scalar& alpha, const Tensor&) {
    if (alpha.equal(1))
      run_elementwise(*this, rows::add);
    else
      run_elementwise(*this, rows::add_scaled, {alpha});
  }
};
struct Sub : meta::structured_sub_Tensor {
  void impl(const Tensor&, const Tensor&, const Scalar& alpha, const Tensor&) {
    if (alpha.equal(1))
      run_elementwise(*this, rows::sub);
    else
      run_elementwise(*this, rows::add_scaled, {-alpha});
  }
};
struct DivMode : meta::structured_div_Tensor_mode {
  void impl(const Tensor&, const Tensor&, std::optional<c10::string_view> mode, const Tensor&) {
    run_elementwise(*this, !mode.has_value() ? rows::div : *mode == "trunc" ? rows::div_trunc : rows::div_floor);
  }
};
struct Clamp : meta::structured_clamp {
  void impl(const Tensor&, OptionalScalarRef low, OptionalScalarRef high, const Tensor&) {
    if (low && high)
      run_elementwise(*this, rows::clamp, {low.get(), high.get()});
    else if (low)
      run_elementwise(*this, rows::clamp_min, {low.get()});
    else
      run_elementwise(*this, rows::clamp_max, {high.get()});
  }
};
struct ClampTensor : meta::structured_clamp_Tensor {
  void impl(const Tensor&, OptionalTensorRef low, OptionalTensorRef high, const Tensor&) {
    run_elementwise(*this, low && high ? rows::clamp_tensor : low ? rows::maximum : rows::minimum);
  }
};
struct Gelu : meta::structured_gelu {
  void impl(const Tensor&, c10::string_view approximate, const Tensor&) {
    if (approximate != "tanh") unsupported("gelu with approximate='", approximate, "', where 'tanh' is implemented");
    run_elementwise(*this, rows::gelu_tanh);
  }
};
struct LerpScalar : meta::structured_lerp_Scalar {
  void impl(const Tensor&, const Tensor&, const Scalar& weight, const Tensor&) {
    const double w = weight.toDouble();
    if (std::abs(w) < 0.5)
      run_elementwise(*this, rows::lerp_low, {w});
    else
      run_elementwise(*this, rows::lerp_high, {w - 1});
  }
};

void run_pow(at::TensorIteratorBase& iterator) {
  if (!is_float(element_of(iterator.common_dtype(), "pow")) || iterator.common_dtype() == at::kDouble)
    unsupported("pow of ", iterator.common_dtype(), " with a general exponent, where float32, float16 and bfloat16 are implemented");
  run_elementwise(iterator, rows::pow);
}
struct PowTensorScalar : meta::structured_pow_Tensor_Scalar {
  void impl(const Tensor& self, const Scalar& exponent, const Tensor& out) {
    const double e = exponent.toDouble();
    if (e == 2) return run_elementwise(*this, rows::square);
    if (e == 3) return run_elementwise(*this, rows::cube);
    // In f16 PyTorch takes the power of these too: (-inf) ** 0.5 is inf there, and NaN elsewhere.
    if (is_float(element_of(common_dtype(), "pow")) && common_dtype() != at::kHalf) {
      if (e == 0.5) return run_elementwise(*this, rows::sqrt);
      if (e == -0.5) return run_elementwise(*this, rows::rsqrt);
      if (e == -1) return run_elementwise(*this, rows::reciprocal);
      if (e == -2) return run_elementwise(*this, rows::square_reciprocal);
    }
    if (e == 0) {
      const_cast<Tensor&>(out).fill_(1);
    } else if (e == 1) {
      const_cast<Tensor&>(out).copy_(self);
    } else {
      auto iterator = at::TensorIterator::binary_op(const_cast<Tensor&>(out), self,
                                                    at::native::wrapped_scalar_tensor(exponent));
      run_pow(iterator);
    }
  }
};
struct PowTensorTensor : meta::structured_pow_Tensor_Tensor {
  void impl(const Tensor&, const Tensor&, const Tensor&) { run_pow(*this); }
};

#define EMU_UNARY(name, row)                                                                          \
  EMU_STRUCTURED_FUNCTIONAL(library, #name, Pointwise<meta::structured_##name, rows::row>);           \
  EMU_STRUCTURED_OUT(library, #name ".out", Pointwise<meta::structured_##name, rows::row>);           \
  EMU_STRUCTURED_IN_PLACE(library, #name "_", Pointwise<meta::structured_##name, rows::row>)
#define EMU_BINARY(name, row)                                                                         \
  EMU_STRUCTURED_FUNCTIONAL(library, #name ".Tensor", Pointwise<meta::structured_##name##_Tensor, rows::row>); \
  EMU_STRUCTURED_IN_PLACE(library, #name "_.Tensor", Pointwise<meta::structured_##name##_Tensor, rows::row>)
#define EMU_COMPARISON(name)                                                                          \
  EMU_BINARY(name, name);                                                                             \
  EMU_STRUCTURED_OUT(library, #name ".Tensor_out", Pointwise<meta::structured_##name##_Tensor, rows::name>);   \
  EMU_STRUCTURED_FUNCTIONAL(library, #name ".Scalar", Pointwise<meta::structured_##name##_Scalar, rows::name>); \
  EMU_STRUCTURED_IN_PLACE(library, #name "_.Scalar", Pointwise<meta::structured_##name##_Scalar, rows::name>); \
  EMU_STRUCTURED_OUT(library, #name ".Scalar_out", Pointwise<meta::structured_##name##_Scalar, rows::name>)
#define EMU_ALL_THREE(functional, out, in_place, ...)            \
  EMU_STRUCTURED_FUNCTIONAL(library, functional, __VA_ARGS__);   \
  EMU_STRUCTURED_OUT(library, out, __VA_ARGS__);                 \
  EMU_STRUCTURED_IN_PLACE(library, in_place, __VA_ARGS__)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_ALL_THREE("add.Tensor", "add.out", "add_.Tensor", Add);
  EMU_ALL_THREE("sub.Tensor", "sub.out", "sub_.Tensor", Sub);
  EMU_ALL_THREE("div.Tensor_mode", "div.out_mode", "div_.Tensor_mode", DivMode);
  EMU_BINARY(mul, mul);
  EMU_STRUCTURED_OUT(library, "mul.out", Pointwise<meta::structured_mul_Tensor, rows::mul>);
  EMU_BINARY(div, div);
  EMU_STRUCTURED_OUT(library, "div.out", Pointwise<meta::structured_div_Tensor, rows::div>);
  EMU_BINARY(fmod, fmod);
  EMU_STRUCTURED_OUT(library, "fmod.Tensor_out", Pointwise<meta::structured_fmod_Tensor, rows::fmod>);
  EMU_BINARY(remainder, remainder);
  EMU_STRUCTURED_OUT(library, "remainder.Tensor_out", Pointwise<meta::structured_remainder_Tensor, rows::remainder>);
  EMU_BINARY(bitwise_and, bitwise_and);
  EMU_STRUCTURED_OUT(library, "bitwise_and.Tensor_out", Pointwise<meta::structured_bitwise_and_Tensor, rows::bitwise_and>);
  EMU_BINARY(bitwise_or, bitwise_or);
  EMU_STRUCTURED_OUT(library, "bitwise_or.Tensor_out", Pointwise<meta::structured_bitwise_or_Tensor, rows::bitwise_or>);
  EMU_BINARY(bitwise_xor, bitwise_xor);
  EMU_STRUCTURED_OUT(library, "bitwise_xor.Tensor_out", Pointwise<meta::structured_bitwise_xor_Tensor, rows::bitwise_xor>);
  EMU_BINARY(bitwise_left_shift, shift_left);
  EMU_STRUCTURED_OUT(library, "bitwise_left_shift.Tensor_out", Pointwise<meta::structured_bitwise_left_shift_Tensor, rows::shift_left>);
  EMU_BINARY(bitwise_right_shift, shift_right);
  EMU_STRUCTURED_OUT(library, "bitwise_right_shift.Tensor_out", Pointwise<meta::structured_bitwise_right_shift_Tensor, rows::shift_right>);

  EMU_COMPARISON(eq);
  EMU_COMPARISON(ne);
  EMU_COMPARISON(lt);
  EMU_COMPARISON(le);
  EMU_COMPARISON(gt);
  EMU_COMPARISON(ge);
  EMU_STRUCTURED_FUNCTIONAL(library, "minimum", Pointwise<meta::structured_minimum, rows::minimum>);
  EMU_STRUCTURED_OUT(library, "minimum.out", Pointwise<meta::structured_minimum, rows::minimum>);
  EMU_STRUCTURED_FUNCTIONAL(library, "maximum", Pointwise<meta::structured_maximum, rows::maximum>);
  EMU_STRUCTURED_OUT(library, "maximum.out", Pointwise<meta::structured_maximum, rows::maximum>);

  EMU_UNARY(neg, neg);
  EMU_UNARY(reciprocal, reciprocal);
  EMU_UNARY(sqrt, sqrt);
  EMU_UNARY(rsqrt, rsqrt);
  EMU_UNARY(exp, exp);
  EMU_UNARY(log, log);
  EMU_UNARY(tanh, tanh);
  EMU_UNARY(sigmoid, sigmoid);
  EMU_UNARY(floor, floor);
  EMU_UNARY(ceil, ceil);
  EMU_UNARY(trunc, trunc);
  EMU_UNARY(round, round);
  EMU_UNARY(frac, frac);
  EMU_UNARY(sign, sign);
  EMU_UNARY(sgn, sign);
  EMU_UNARY(bitwise_not, bitwise_not);
  EMU_UNARY(silu, silu);
  EMU_UNARY(leaky_relu, leaky_relu);
  EMU_UNARY(threshold, threshold);
  EMU_UNARY(addcmul, addcmul);
  EMU_UNARY(addcdiv, addcdiv);
  EMU_ALL_THREE("gelu", "gelu.out", "gelu_", Gelu);
  EMU_ALL_THREE("clamp", "clamp.out", "clamp_", Clamp);
  EMU_ALL_THREE("clamp.Tensor", "clamp.Tensor_out", "clamp_.Tensor", ClampTensor);
  EMU_UNARY(clamp_min, clamp_min);
  EMU_UNARY(clamp_max, clamp_max);
  EMU_ALL_THREE("lerp.Scalar", "lerp.Scalar_out", "lerp_.Scalar", LerpScalar);
  EMU_ALL_THREE("lerp.Tensor", "lerp.Tensor_out", "lerp_.Tensor", Pointwise<meta::structured_lerp_Tensor, rows::lerp_tensor>);
  EMU_ALL_THREE("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar", PowTensorScalar);
  EMU_ALL_THREE("pow.Tensor_Tensor", "pow.Tensor_Tensor_out", "pow_.Tensor", PowTensorTensor);

  EMU_STRUCTURED_FUNCTIONAL(library, "threshold_backward", Pointwise<meta::structured_threshold_backward, rows::threshold_backward>);
  EMU_STRUCTURED_OUT(library, "threshold_backward.grad_input", Pointwise<meta::structured_threshold_backward, rows::threshold_backward>);
  EMU_STRUCTURED_FUNCTIONAL(library, "tanh_backward", Pointwise<meta::structured_tanh_backward, rows::tanh_backward>);
  EMU_STRUCTURED_OUT(library, "tanh_backward.grad_input", Pointwise<meta::structured_tanh_backward, rows::tanh_backward>);
  EMU_STRUCTURED_FUNCTIONAL(library, "sigmoid_backward", Pointwise<meta::structured_sigmoid_backward, rows::sigmoid_backward>);
  EMU_STRUCTURED_OUT(library, "sigmoid_backward.grad_input", Pointwise<meta::structured_sigmoid_backward, rows::sigmoid_backward>);
  EMU_STRUCTURED_FUNCTIONAL(library, "silu_backward", Pointwise<meta::structured_silu_backward, rows::silu_backward>);
  EMU_STRUCTURED_OUT(library, "silu_backward.grad_input", Pointwise<meta::structured_silu_backward, rows::silu_backward>);
}

}  // namespace
}  // namespace emu
