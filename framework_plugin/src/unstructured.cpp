// Elementwise operators without a structured meta function: PyTorch's own wrapper builds the
// iterator and calls the kernel registered for this device, or the wrapper is a few lines here.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Fill.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/logical_and_native.h>
#include <ATen/ops/logical_not_native.h>
#include <ATen/ops/logical_or_native.h>
#include <ATen/ops/logical_xor_native.h>
#include <ATen/ops/rsub_native.h>
#include <ATen/ops/where_native.h>

#include "counts.h"
#include "elementwise.h"
#include "rows.h"
#include "runtime.h"

namespace at::native {
namespace {

template <const emu::Row& row>
void unary(TensorIteratorBase& iterator) {
  emu::run_elementwise(iterator, row);
}
template <const emu::Row& row>
void binary(TensorIterator& iterator) {
  emu::run_elementwise(iterator, row);
}
// The two alternatives decide the type, not the condition.
void where(TensorIterator& iterator) { emu::run_elementwise(iterator, emu::rows::where, {}, iterator.dtype(0)); }
void fill(TensorIterator& iterator, const Scalar& value) { emu::run_elementwise(iterator, emu::rows::fill, {value}); }

void arange(TensorIterator& iterator, const Scalar& start, const Scalar&, const Scalar& step) {
  const auto type = iterator.dtype(0);
  const bool floating = isFloatingType(type);
  emu::run_elementwise(iterator,
                       floating ? (type == kDouble ? emu::rows::arange_f64 : emu::rows::arange)
                                : (type == kLong ? emu::rows::arange_i64 : emu::rows::arange_integer),
                       {start, step}, type);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &unary<emu::rows::abs>)
REGISTER_PRIVATEUSE1_DISPATCH(logical_not_stub, &unary<emu::rows::logical_not>)
REGISTER_PRIVATEUSE1_DISPATCH(logical_and_stub, &binary<emu::rows::logical_and>)
REGISTER_PRIVATEUSE1_DISPATCH(logical_or_stub, &binary<emu::rows::logical_or>)
REGISTER_PRIVATEUSE1_DISPATCH(logical_xor_stub, &binary<emu::rows::logical_xor>)
REGISTER_PRIVATEUSE1_DISPATCH(where_kernel, &where)
REGISTER_PRIVATEUSE1_DISPATCH(fill_stub, &fill)
REGISTER_PRIVATEUSE1_DISPATCH(arange_stub, &arange)

}  // namespace at::native

namespace emu {
namespace {

using at::Scalar;
using at::Tensor;

Tensor& fill_scalar(Tensor& self, const Scalar& value) { return at::native::fill_(self, value); }
// The value is converted as a tensor is: one that does not fit wraps, where `fill_scalar` refuses it.
Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  return self.copy_(value.to(self.options()));
}
Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return at::native::rsub(self, other, alpha); }
Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  return at::native::where(condition, self, other);
}
Tensor& arange(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  return at::native::arange_out(start, end, step, out);
}

Tensor& zero_(Tensor& self) {
  if (self.numel() == 0) return self;
  if (!self.is_non_overlapping_and_dense()) return self.fill_(0);
  const int device = self.device().index();
  check(api().fill(device, current_stream(device), address(self.mutable_data_ptr()), 0, self.nbytes()), "fill");
  return self;
}

void check_relu(const Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
}
Tensor relu(const Tensor& self) {
  check_relu(self);
  return at::clamp_min(self, 0);
}
Tensor& relu_(Tensor& self) {
  check_relu(self);
  return at::clamp_min_(self, 0);
}
Tensor& masked_fill_scalar(Tensor& self, const Tensor& mask, const Scalar& value) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
  at::assert_no_internal_overlap(self);
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .add_output(self)
                      .add_owned_const_input(mask.expand_as(self))
                      .add_const_input(self)
                      .build();
  run_elementwise(iterator, rows::masked_fill, {value}, self.scalar_type());
  return self;
}
Tensor& masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  return masked_fill_scalar(self, mask, value.item());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE_ANYWHERE(library, "abs.out", &at::native::abs_out);
  EMU_NATIVE_ANYWHERE(library, "logical_not.out", &at::native::logical_not_out);
  EMU_NATIVE_ANYWHERE(library, "logical_and.out", &at::native::logical_and_out);
  EMU_NATIVE_ANYWHERE(library, "logical_or.out", &at::native::logical_or_out);
  EMU_NATIVE_ANYWHERE(library, "logical_xor.out", &at::native::logical_xor_out);
  EMU_NATIVE_ANYWHERE(library, "where.self", &where);
  EMU_NATIVE_ANYWHERE(library, "where.self_out", &at::native::where_self_out);
  EMU_NATIVE(library, "isnan", &at::native::isnan);
  EMU_NATIVE_ANYWHERE(library, "rsub.Tensor", &rsub);
  EMU_NATIVE(library, "fill_.Scalar", &fill_scalar);
  EMU_NATIVE_ANYWHERE(library, "fill_.Tensor", &fill_tensor);
  EMU_NATIVE(library, "zero_", &zero_);
  EMU_NATIVE(library, "arange.start_out", &arange);
  EMU_NATIVE(library, "relu", &relu);
  EMU_NATIVE(library, "relu_", &relu_);
  EMU_NATIVE_ANYWHERE(library, "masked_fill_.Scalar", &masked_fill_scalar);
  EMU_NATIVE_ANYWHERE(library, "masked_fill_.Tensor", &masked_fill_tensor);
}

}  // namespace
}  // namespace emu
