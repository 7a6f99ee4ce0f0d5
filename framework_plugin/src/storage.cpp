// Factories, storage and view operators. Views share storage and never copy: each is native.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/record_stream_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/TensorUtils.h>
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "counts.h"
#include "runtime.h"

namespace emu {
namespace {

using at::IntArrayRef;
using at::Tensor;

c10::Device resolve(std::optional<c10::Device> device) {
  const c10::Device asked = device.value_or(c10::Device(kDeviceType));
  return asked.has_index() ? asked
                           : c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(current_device()));
}

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided, "emu: expected a strided layout, got ", *layout,
                              "; the device has dense tensors only");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(IntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout> layout,
             std::optional<c10::Device> device, std::optional<bool> pin_memory,
             std::optional<c10::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_generic(size, c10::GetAllocator(kDeviceType), kKeys, c10::dtype_or_default(type), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<c10::ScalarType> type,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                     std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kDeviceType), kKeys,
                                           c10::dtype_or_default(type));
}

void grow_storage(const Tensor& self, int64_t bytes) {
  const at::Storage& storage = self.storage();
  if (static_cast<int64_t>(storage.nbytes()) < bytes)
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, static_cast<size_t>(bytes));
}

const Tensor& resize_(const Tensor& self, IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (!self.sizes().equals(size)) {
    impl->set_sizes_contiguous(size);
    if (self.numel() != 0)
      grow_storage(self, static_cast<int64_t>(at::detail::computeStorageNbytesContiguous(
                             size, self.dtype().itemsize(), static_cast<size_t>(self.storage_offset()))));
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr)
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  if (self.numel() != 0)
    grow_storage(self, static_cast<int64_t>(at::detail::computeStorageNbytes(
                           self.sizes(), self.strides(), self.dtype().itemsize(), static_cast<size_t>(offset))));
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {elements}, {});
}

Tensor& set_empty(Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  at::Storage storage(at::Storage::use_byte_size_t(), 0, c10::GetAllocator(kDeviceType), true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

void record_stream(Tensor& self, c10::Stream stream) {
  if (self.numel() == 0) return;
  check(api().memory_record(self.device().index(), address(self.storage().data()), handle(stream)), "record_stream");
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
Tensor view(const Tensor& self, IntArrayRef size) { return at::native::view(self, size); }
Tensor reshape_alias(const Tensor& self, IntArrayRef size, IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_NATIVE(library, "empty.memory_format", &empty);
  EMU_NATIVE(library, "empty_strided", &empty_strided);
  EMU_NATIVE(library, "resize_", &resize_);
  EMU_NATIVE(library, "set_.source_Storage_storage_offset", &set_storage);
  EMU_NATIVE(library, "set_.source_Storage", &set_whole_storage);
  EMU_NATIVE(library, "set_.source_Tensor", &at::native::set_tensor_);
  EMU_NATIVE(library, "set_", &set_empty);
  EMU_NATIVE(library, "record_stream", &record_stream);
  EMU_NATIVE(library, "as_strided", &as_strided);
  EMU_NATIVE(library, "view", &view);
  EMU_NATIVE(library, "_reshape_alias", &reshape_alias);
  EMU_NATIVE(library, "unfold", &at::native::unfold);
  EMU_NATIVE(library, "view_as_real", &at::native::view_as_real);
  EMU_NATIVE(library, "view_as_complex", &at::native::view_as_complex);
}

}  // namespace
}  // namespace emu
