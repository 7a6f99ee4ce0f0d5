// Copies between host and device and on the device.
//
// Host memory crosses only in whole contiguous blocks of one dtype: strides are resolved on
// the side that has them, and a change of dtype happens on the source's side of the bus when
// that makes it narrower, else on the other.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>

#include "bounds.h"
#include "counts.h"
#include "elementwise.h"
#include "exit.h"
#include "rows.h"
#include "runtime.h"

namespace emu {
namespace {

using at::Tensor;

bool on_device(const Tensor& tensor) { return tensor.device().type() == kDeviceType; }

// Same elements at the same places of one dense block, so that a copy of bytes is a copy of the tensor.
bool same_block(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes().equals(b.sizes()) && a.strides().equals(b.strides()) &&
         a.is_non_overlapping_and_dense();
}

void copy_on_device(const Tensor& from, const Tensor& to) {
  const int device = to.device().index();
  if (same_block(from, to)) {
    if (from.const_data_ptr() == to.const_data_ptr()) return;
    at::assert_no_partial_overlap(to, from);
    check(api().copy(device, current_stream(device), EMURT_COPY_ON_DEVICE, nullptr, address(to.mutable_data_ptr()),
                     address(from.const_data_ptr()), to.nbytes()),
          "copy on the device");
    return;
  }
  if (from.is_complex() && from.dtype() == to.dtype()) return copy_on_device(at::view_as_real(from), at::view_as_real(to));
  if (from.dtype() != to.dtype() && !(supported(from.scalar_type()) && supported(to.scalar_type()))) {
    note_fallback("aten::_copy_from", c10::str("conversion of ", from.scalar_type(), " to ", to.scalar_type()));
    to.copy_(from.to(at::kCPU).to(to.scalar_type()));
    return;
  }
  auto iterator = at::TensorIteratorConfig()
                      .add_output(to)
                      .add_const_input(from)
                      .resize_outputs(false)
                      .check_all_same_dtype(false)
                      .check_all_same_device(false)
                      .build();
  if (from.dtype() == to.dtype())
    run_bit_copy(iterator);
  else
    run_elementwise(iterator, rows::copy, {}, from.scalar_type());
}

// The elements as they lie in memory: without the bits that make a view conjugate or negative.
Tensor stored(const Tensor& tensor) {
  const Tensor plain = tensor.is_conj() ? at::_conj(tensor) : tensor;
  return plain.is_neg() ? at::_neg_view(plain) : plain;
}

// What such bits say of `plain`, in new memory on the same device.
Tensor carried_out(const Tensor& plain, bool conjugate, bool negative) {
  if (!(conjugate && plain.is_complex()) && !negative) return plain;
  const Tensor out = at::empty(plain.sizes(), plain.options());
  out.copy_(plain);
  const Tensor numbers = plain.is_complex() ? at::view_as_real(out) : out;
  if (conjugate) numbers.select(-1, 1).neg_();
  if (negative) numbers.neg_();
  return out;
}

// `host` and `device` are one block each, of one dtype and shape.
void copy_block(const Tensor& device_side, const Tensor& host_side, emurt_copy_kind kind, bool non_blocking) {
  if (device_side.numel() == 0) return;
  const int device = device_side.device().index();
  void* host = const_cast<void*>(host_side.const_data_ptr());
  check(api().copy(device, current_stream(device), kind, host, address(device_side.const_data_ptr()), 0,
                   device_side.nbytes()),
        kind == EMURT_COPY_TO_DEVICE ? "copy to the device" : "copy from the device");
  // For pageable memory the runtime has waited already.
  const bool waited = kind == EMURT_COPY_FROM_DEVICE && !host_side.is_pinned();
  if (!non_blocking && !waited) check(api().stream_synchronize(device, current_stream(device)), "copy");
  if (!non_blocking || waited) check_bounds(device);
  park_here();
}

void copy_to_device(const Tensor& from, const Tensor& to, bool non_blocking) {
  const bool convert_first = from.element_size() >= to.element_size() || !supported(from.scalar_type());
  Tensor source = convert_first ? from.to(to.scalar_type()) : from;
  source = source.expand(to.sizes());
  if (same_block(source, to)) return copy_block(to, source, EMURT_COPY_TO_DEVICE, non_blocking || !source.is_pinned());
  source = source.contiguous();
  if (to.is_contiguous() && source.dtype() == to.dtype())
    return copy_block(to, source, EMURT_COPY_TO_DEVICE, non_blocking || !source.is_pinned());
  const Tensor staged = at::empty(source.sizes(), source.options().device(to.device()).pinned_memory(false));
  copy_block(staged, source, EMURT_COPY_TO_DEVICE, false);
  copy_on_device(staged, to);
}

void copy_from_device(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (same_block(from, to)) return copy_block(from, to, EMURT_COPY_FROM_DEVICE, non_blocking);
  const bool convert_first = to.element_size() <= from.element_size() && supported(to.scalar_type()) &&
                             supported(from.scalar_type());
  const Tensor source = (convert_first ? from.to(to.scalar_type()) : from).contiguous();
  if (to.is_contiguous() && same_block(source, to)) return copy_block(source, to, EMURT_COPY_FROM_DEVICE, non_blocking);
  const Tensor staged = at::empty(source.sizes(), source.options().device(at::kCPU));
  copy_block(source, staged, EMURT_COPY_FROM_DEVICE, false);
  to.copy_(staged);
}

}  // namespace

Tensor copy_from(const Tensor& given, const Tensor& given_to, bool non_blocking) {
  if (given_to.numel() == 0) return given_to;
  const Tensor to = stored(given_to);
  Tensor from = carried_out(stored(given), given.is_conj(), given.is_neg());
  if (given_to.is_conj() || given_to.is_neg())
    from = carried_out(from.to(to.scalar_type()), given_to.is_conj(), given_to.is_neg());
  if (on_device(from) && on_device(to)) {
    if (from.device() != to.device()) return copy_from(from.to(at::kCPU), to, false);
    copy_on_device(from, to);
  } else if (on_device(to)) {
    copy_to_device(from, to, non_blocking);
  } else {
    copy_from_device(from.expand(to.sizes()), to, non_blocking);
  }
  return given_to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  at::native::resize_output(to, from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const Tensor& self) {
  const Tensor value = at::empty(self.sizes(), self.options().device(at::kCPU));
  copy_from(self, value, false);
  return value.item();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE_ANYWHERE(library, "_copy_from", &copy_from);
  EMU_NATIVE_ANYWHERE(library, "_copy_from_and_resize", &copy_from_and_resize);
  EMU_NATIVE(library, "_local_scalar_dense", &local_scalar);
}

// PyTorch's kernels for conjugate and negative views make a clone, which is a copy: `_copy_from` sees the bits itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace emu
