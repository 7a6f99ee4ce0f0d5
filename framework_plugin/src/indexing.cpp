// Operators that reach elements through index tensors, and cat.
//
// The restrided operand has stride 0 along the indexed dimensions: the iterator takes care of
// all others, and the program adds what the indices say. An index out of range cannot raise at
// the call, since the device runs behind the host: the program faults, and the fault names it.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/index_meta.h>
#include <ATen/ops/index_native.h>
#include <ATen/ops/scatter_meta.h>

#include "elementwise.h"
#include "rows.h"

namespace emu {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
namespace meta = at::meta;

// `tensor` seen with the index's shape, standing still along `dim`.
Tensor restride(const Tensor& tensor, const Tensor& index, int64_t dim) {
  auto strides = tensor.strides().vec();
  strides[static_cast<size_t>(dim)] = 0;
  return tensor.as_strided(index.sizes(), strides);
}

Tensor at_least_1d(const Tensor& tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

void run(const Tensor& out, const Tensor& source, const Tensor& index, const Row& row, int64_t size, int64_t stride) {
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .add_output(out)
                      .add_const_input(source)
                      .add_const_input(index)
                      .build();
  run_indirect(iterator, row, {size}, {stride});
}

void gather(const Tensor& given_self, int64_t dim, const Tensor& given_index, const Tensor& given_out) {
  if (given_index.numel() == 0) return;
  const Tensor self = at_least_1d(given_self), index = at_least_1d(given_index), out = at_least_1d(given_out);
  dim = at::maybe_wrap_dim(dim, self.dim());
  run(out, restride(self, index, dim), index, rows::gather, self.size(dim), self.stride(dim) * self.element_size());
}

void scatter(const Tensor& self, int64_t dim, const Tensor& given_index, const Tensor& given_source, const Tensor& given_out) {
  if (!self.is_same(given_out)) given_out.copy_(self);
  if (given_index.numel() == 0) return;
  const Tensor index = at_least_1d(given_index), source = at_least_1d(given_source), out = at_least_1d(given_out);
  dim = at::maybe_wrap_dim(dim, out.dim());
  run(restride(out, index, dim), source.as_strided(index.sizes(), source.strides()), index, rows::scatter, out.size(dim),
      out.stride(dim) * out.element_size());
}

struct Gather : meta::structured_gather {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) { gather(self, dim, index, out); }
};
struct ScatterSource : meta::structured_scatter_src {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
    scatter(self, dim, index, source, out);
  }
};
struct ScatterValue : meta::structured_scatter_value {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
    const Tensor source = at::empty({}, self.options()).fill_(value).expand(at_least_1d(index).sizes());
    scatter(self, dim, index, source, out);
  }
};

Tensor& index_select_out(const Tensor& given_self, int64_t dim, const Tensor& index, Tensor& out) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(given_self.scalar_type() == out.scalar_type(), "index_select(): self and result must have the same scalar type");
  const Tensor self = at_least_1d(given_self), flat = at_least_1d(index);
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto sizes = self.sizes().vec();
  sizes[static_cast<size_t>(dim)] = flat.numel();
  at::native::resize_output(out, given_self.dim() == 0 ? IntArrayRef{} : IntArrayRef(sizes));
  if (out.numel() == 0) return out;
  auto view = std::vector<int64_t>(sizes.size(), 1);
  view[static_cast<size_t>(dim)] = flat.numel();
  gather(self, dim, flat.reshape(view).expand(sizes), at_least_1d(out));
  return out;
}
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out);
}

Tensor index_tensor(const Tensor& self, const c10::List<std::optional<Tensor>>& indices) {
  Functional<at::native::structured_index_out> op;
  const at::IOptTensorListRef list(indices);
  const auto computed = op.meta(self, list);
  op.impl(self, computed.sizes, computed.strides, op.maybe_get_output(0));
  return std::move(op.output);
}
Tensor& index_out(const Tensor& self, const c10::List<std::optional<Tensor>>& indices, Tensor& out) {
  const Tensor made = index_tensor(self, indices);
  at::native::resize_output(out, made.sizes());
  return out.copy_(made);
}

Tensor cat(const at::ITensorListRef& given, int64_t dim);

Tensor& cat_out(const at::ITensorListRef& given, int64_t dim, Tensor& out) {
  const auto tensors = given.materialize();
  TORCH_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  // An empty one-dimensional tensor goes with any shape, for old code's sake.
  const auto skipped = [](const Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; };
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.dim() > 0, "zero-dimensional tensor (at position 0) cannot be concatenated");
    if (first == nullptr && !skipped(tensor)) first = &tensor;
  }
  if (first == nullptr) {
    at::native::resize_output(out, {0});
    return out;
  }
  dim = at::maybe_wrap_dim(dim, first->dim());
  auto sizes = first->sizes().vec();
  sizes[static_cast<size_t>(dim)] = 0;
  for (const Tensor& tensor : tensors) {
    if (skipped(tensor)) continue;
    TORCH_CHECK(tensor.dim() == first->dim(), "Tensors must have same number of dimensions: got ", first->dim(), " and ",
                tensor.dim());
    for (int64_t k = 0; k < tensor.dim(); ++k)
      TORCH_CHECK(k == dim || tensor.size(k) == first->size(k), "Sizes of tensors must match except in dimension ", dim,
                  ". Expected size ", first->size(k), " but got size ", tensor.size(k), " for a tensor in the list.");
    sizes[static_cast<size_t>(dim)] += tensor.size(dim);
  }
  at::native::resize_output(out, sizes);
  int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    if (skipped(tensor)) continue;
    out.narrow(dim, at, tensor.size(dim)).copy_(tensor);
    at += tensor.size(dim);
  }
  return out;
}
Tensor cat(const at::ITensorListRef& given, int64_t dim) {
  const auto tensors = given.materialize();
  TORCH_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  Tensor out = at::empty({0}, tensors.front().get().options().dtype(at::native::result_type(given)));
  return cat_out(given, dim, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  EMU_STRUCTURED_FUNCTIONAL(library, "gather", Gather);
  EMU_STRUCTURED_OUT(library, "gather.out", Gather);
  EMU_STRUCTURED_FUNCTIONAL(library, "scatter.src", ScatterSource);
  EMU_STRUCTURED_OUT(library, "scatter.src_out", ScatterSource);
  EMU_STRUCTURED_IN_PLACE(library, "scatter_.src", ScatterSource);
  EMU_STRUCTURED_FUNCTIONAL(library, "scatter.value", ScatterValue);
  EMU_STRUCTURED_OUT(library, "scatter.value_out", ScatterValue);
  EMU_STRUCTURED_IN_PLACE(library, "scatter_.value", ScatterValue);
  EMU_NATIVE(library, "index_select", &index_select);
  EMU_NATIVE(library, "index_select.out", &index_select_out);
  EMU_NATIVE(library, "index.Tensor", &index_tensor);
  EMU_NATIVE(library, "index.Tensor_out", &index_out);
  EMU_NATIVE(library, "_index_put_impl_", &at::native::_index_put_impl_);
  EMU_NATIVE(library, "cat", &cat);
  EMU_NATIVE(library, "cat.out", &cat_out);
}

void check_indices(const at::TensorIteratorBase& iterator, IntArrayRef sizes, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(sizes.size() <= 4 && iterator.ntensors() == static_cast<int>(sizes.size()) + 2, "emu: ", name,
                              " is implemented for at most 4 index tensors, got ", sizes.size());
}

}  // namespace
}  // namespace emu

namespace at::native {
namespace {

void index_kernel(TensorIteratorBase& iterator, IntArrayRef sizes, IntArrayRef strides) {
  emu::check_indices(iterator, sizes, "index");
  emu::run_indirect(iterator, emu::rows::index[sizes.size() - 1], sizes, strides);
}
void index_put_kernel(TensorIterator& iterator, IntArrayRef sizes, IntArrayRef strides, bool accumulate) {
  TORCH_CHECK_NOT_IMPLEMENTED(!accumulate, "emu: index_put with accumulate=True is not implemented; compute it on the CPU");
  emu::check_indices(iterator, sizes, "index_put");
  emu::run_indirect(iterator, emu::rows::index_put[sizes.size() - 1], sizes, strides);
}

}  // namespace
REGISTER_PRIVATEUSE1_DISPATCH(index_stub, &index_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_stub, &index_put_kernel)
}  // namespace at::native
