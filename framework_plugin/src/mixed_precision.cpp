// torch.autocast and torch.amp.GradScaler. Which operators are cast, and to what, is PyTorch's own list: that of
// its other accelerators. Products in float16 and bfloat16 are matrix.cpp's.
#include "structured.h"  // first: PyTorch's headers lean on what it includes

#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>

namespace emu {
namespace {

using at::Tensor;

Tensor binary_cross_entropy_refused(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false, "binary_cross_entropy is not safe under autocast: in float16 and bfloat16 a probability next to 0 "
              "or 1 is 0 or 1, and its logarithm is not finite. Use binary_cross_entropy_with_logits or "
              "BCEWithLogitsLoss on the scores instead, or call it in a region with autocast off, on float32.");
}

// An operator that no list names runs as it does without autocast.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {  // `m` is the macros' word, and the lists' are of this namespace
  using namespace at;
#define EMU_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define EMU_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define EMU_FP32_UNLESS_ASKED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define EMU_PROMOTED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(EMU_LOWER_PRECISION)
  AT_FORALL_FP32(EMU_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(EMU_FP32_UNLESS_ASKED)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(EMU_PROMOTED)
  m.impl("binary_cross_entropy", TORCH_FN(&binary_cross_entropy_refused));
}

void check_scalar(const Tensor& value, at::ScalarType type, const char* name) {
  TORCH_CHECK(value.numel() == 1 && value.scalar_type() == type, "GradScaler: expected ", name, " to be one ", type,
              ", got ", value.scalar_type(), value.sizes());
}

// Gradients are multiplied in place; `found` becomes 1 where one of them was infinite or NaN.
void unscale(at::TensorList gradients, Tensor& found, const Tensor& inverse) {
  check_scalar(found, at::kFloat, "found_inf");
  check_scalar(inverse, at::kFloat, "inv_scale");
  for (const Tensor& gradient : gradients) {
    TORCH_CHECK(at::isFloatingType(gradient.scalar_type()), "GradScaler: expected gradients of floats, got ",
                gradient.scalar_type());
    const Tensor bad = gradient.sub(gradient).ne(0).any();  // inf - inf and NaN - NaN are NaN
    found.copy_(at::maximum(found, bad.to(at::kFloat).reshape(found.sizes())));
    if (c10::isReducedFloatingType(gradient.scalar_type()))
      gradient.copy_(gradient.to(at::kFloat).mul_(inverse));
    else
      gradient.mul_(inverse);
  }
}

// After a bad step the scale shrinks; after `interval` good ones in a row it grows, as far as it stays finite.
Tensor& update_scale(Tensor& scale, Tensor& good_steps, const Tensor& found, double growth, double backoff,
                     int64_t interval) {
  check_scalar(scale, at::kFloat, "the scale");
  check_scalar(good_steps, at::kInt, "the growth tracker");
  check_scalar(found, at::kFloat, "found_inf");
  const Tensor bad = found.ne(0);
  const Tensor steps = good_steps.add(1);
  const Tensor is_due = steps.eq(interval);
  // Once rounded, as the factors are f64.
  const Tensor shrunk = scale.to(at::kDouble).mul(backoff).to(at::kFloat);
  const Tensor grown = scale.to(at::kDouble).mul(growth).to(at::kFloat);
  const Tensor grows = is_due.logical_and(grown.sub(grown).eq(0));
  scale.copy_(at::where(bad, shrunk, at::where(grows, grown, scale)));
  good_steps.copy_(steps.masked_fill(bad.logical_or(is_due), 0));
  return scale;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE(library, "_amp_foreach_non_finite_check_and_unscale_", &unscale);
  EMU_NATIVE(library, "_amp_update_scale_", &update_scale);
}

}  // namespace
}  // namespace emu
