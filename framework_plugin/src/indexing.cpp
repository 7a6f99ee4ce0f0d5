// Operators that reach elements through index tensors, and cat.
//
// The restrided operand has stride 0 along the indexed dimensions: the iterator takes care of
// all others, and the program adds what the indices say. An index out of range is left out and
// told when the host next waits (bounds.h).
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/cat_meta.h>
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

void run(const Tensor& out, const Tensor& source, const Tensor& index, const Row& row, int64_t size, int64_t stride,
         bool serial = false) {
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .add_output(out)
                      .add_const_input(source)
                      .add_const_input(index)
                      .build();
  run_indirect(iterator, row, {size}, {stride}, serial);
}

void gather(const Tensor& given_self, int64_t dim, const Tensor& given_index, const Tensor& given_out) {
  if (given_index.numel() == 0) return;
  const Tensor self = at_least_1d(given_self), index = at_least_1d(given_index), out = at_least_1d(given_out);
  dim = at::maybe_wrap_dim(dim, self.dim());
  run(out, restride(self, index, dim), index, rows::gather, self.size(dim), self.stride(dim) * self.element_size());
}

// `in_order`: of several elements for one place the last one is left, else any.
void scatter(const Tensor& self, int64_t dim, const Tensor& given_index, const Tensor& given_source,
             const Tensor& given_out, bool in_order) {
  if (!self.is_same(given_out)) given_out.copy_(self);
  if (given_index.numel() == 0) return;
  const Tensor index = at_least_1d(given_index), source = at_least_1d(given_source), out = at_least_1d(given_out);
  dim = at::maybe_wrap_dim(dim, out.dim());
  run(restride(out, index, dim), source.as_strided(index.sizes(), source.strides()), index, rows::scatter, out.size(dim),
      out.stride(dim) * out.element_size(), in_order && index.size(dim) > 1);
}

struct Gather : meta::structured_gather {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) { gather(self, dim, index, out); }
};
struct ScatterSource : meta::structured_scatter_src {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
    scatter(self, dim, index, source, out, at::globalContext().deterministicAlgorithms());
  }
};
struct ScatterValue : meta::structured_scatter_value {
  void impl(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
    const Tensor source = at::empty({}, self.options()).fill_(value).expand(at_least_1d(index).sizes());
    scatter(self, dim, index, source, out, false);
  }
};

Tensor& index_select_out(const Tensor& given_self, int64_t dim, const Tensor& index, Tensor& out) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(given_self.scalar_type() == out.scalar_type(), "index_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, given_self);
  at::assert_no_overlap(out, index);
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

using IndexList = c10::List<std::optional<Tensor>>;

template <class Op>
void run_index(Op& op, const Tensor& self, const IndexList& indices) {
  const at::IOptTensorListRef list(indices);
  const auto computed = op.meta(self, list);
  op.impl(self, computed.sizes, computed.strides, op.maybe_get_output(0));
}
Tensor index_tensor(const Tensor& self, const IndexList& indices) {
  Functional<at::native::structured_index_out> op;
  run_index(op, self, indices);
  return std::move(op.outputs[0]);
}
Tensor& index_out(const Tensor& self, const IndexList& indices, Tensor& out) {
  Out<at::native::structured_index_out> op(false, out);
  run_index(op, self, indices);
  op.finish();
  return out;
}

template <class Op>
void run_cat(Op& op, const at::ITensorListRef& tensors, int64_t dim) {
  const auto computed = op.meta(tensors, dim);
  const Tensor& out = op.maybe_get_output(0);
  int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() == 1 && tensor.numel() == 0) continue;  // goes with any shape, for old code's sake
    const int64_t size = tensor.size(computed.dim);
    out.narrow(computed.dim, at, size).copy_(tensor);
    at += size;
  }
}
Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  Functional<meta::structured_cat> op;
  run_cat(op, tensors, dim);
  return std::move(op.outputs[0]);
}
Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  Out<meta::structured_cat> op(false, out);
  run_cat(op, tensors, dim);
  op.finish();
  return out;
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
  EMU_NATIVE_ANYWHERE(library, "index.Tensor", &index_tensor);
  EMU_NATIVE_ANYWHERE(library, "index.Tensor_out", &index_out);
  EMU_NATIVE_ANYWHERE(library, "_index_put_impl_", &at::native::_index_put_impl_);
  EMU_NATIVE(library, "cat", &cat);
  EMU_NATIVE(library, "cat.out", &cat_out);
}

void check_indices(const at::TensorIteratorBase& iterator, IntArrayRef sizes, const char* name) {
  if (sizes.size() > 4 || iterator.ntensors() != static_cast<int>(sizes.size()) + 2)
    unsupported(name, " with ", sizes.size(), " index tensors, where at most 4 are implemented");
}

// The type that sums of `type` are made in, which is wide enough for one rounding, or one wrap, at the end.
at::ScalarType sum_type(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
    case at::kBFloat16: return at::kFloat;
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort: return at::kInt;
    case at::kFloat:
    case at::kDouble:
    case at::kInt:
    case at::kLong: return type;
    default: unsupported("index_put with accumulate=True of ", type);
  }
}

// index_put where an element may be named more than once and the result says so: sums, and the last of several
// under deterministic algorithms. Values are laid out as indexing would give them, which is PyTorch's own rule for
// their shape, and go from there into `self`.
void index_put_in_order(Tensor& self, const IndexList& indices, const Tensor& value, bool accumulate, bool) {
  TORCH_CHECK(value.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", value.scalar_type(), " for the source.");
  const auto type = accumulate ? sum_type(self.scalar_type()) : self.scalar_type();
  const Tensor sum = self.to(type);
  const at::IOptTensorListRef list(indices);
  Functional<at::native::structured_index_out> op;
  const auto computed = op.meta(sum, list);
  const Tensor& values = op.outputs[0];
  TORCH_CHECK(at::is_expandable_to(value.sizes(), values.sizes()), "shape mismatch: value tensor of shape ",
              value.sizes(), " cannot be broadcast to indexing result of shape ", values.sizes());
  const size_t count = computed.sizes.size();
  check_indices(op, computed.sizes, "index_put");
  values.copy_(value);
  run_indirect(op, accumulate ? rows::index_add[count - 1] : rows::index_put_from[count - 1], computed.sizes,
               computed.strides, !accumulate || type == at::kDouble);
  if (!sum.is_same(self)) self.copy_(sum);
}

}  // namespace
}  // namespace emu

namespace at::native {
namespace {

void index_kernel(TensorIteratorBase& iterator, IntArrayRef sizes, IntArrayRef strides) {
  emu::check_indices(iterator, sizes, "index");
  emu::run_indirect(iterator, emu::rows::index[sizes.size() - 1], sizes, strides);
}
void index_put_kernel(TensorIterator& iterator, IntArrayRef sizes, IntArrayRef strides, bool) {
  emu::check_indices(iterator, sizes, "index_put");
  emu::run_indirect(iterator, emu::rows::index_put[sizes.size() - 1], sizes, strides);
}

}  // namespace
REGISTER_PRIVATEUSE1_DISPATCH(index_stub, &index_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_stub, &index_put_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_with_sort_stub, &emu::index_put_in_order)
}  // namespace at::native
