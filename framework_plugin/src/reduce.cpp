// Reductions over any dimensions: PyTorch's wrappers build the iterator, the kernels registered
// for this device turn it into one or two launches.
#include "structured.h"  // first: PyTorch's meta headers lean on what it includes

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/all_native.h>
#include <ATen/ops/amax_native.h>
#include <ATen/ops/amin_native.h>
#include <ATen/ops/any_native.h>
#include <ATen/ops/argmax_native.h>
#include <ATen/ops/argmin_native.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum_meta.h>

#include <limits>

#include "elementwise.h"
#include "launch.h"
#include "reduction_program.h"

namespace emu {
namespace {

using at::Tensor;

constexpr int kMaxSlots = 512;
constexpr int64_t kSplitFrom = 1 << 16;   // elements of one output from which it is worth two stages
constexpr int64_t kFewOutputs = 64;       // up to which a block per output leaves cores idle

struct Dim {
  int64_t size, in, out;
};

const char kProgramKind = 0;

ProgramKey key_of(const Reduction& r) {
  return {&kProgramKind,
          static_cast<uint64_t>(r.reduce) | static_cast<uint64_t>(r.across) << 4 | static_cast<uint64_t>(r.mean) << 5 |
              static_cast<uint64_t>(r.in) << 8 | static_cast<uint64_t>(r.out) << 12,
          static_cast<uint64_t>(r.lane_dims) | static_cast<uint64_t>(r.uniform_dims) << 8};
}

int64_t elements(const std::vector<Dim>& dims) {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return count;
}

struct Work {
  Reduction reduction;
  std::vector<Dim> kept, reduced;
  uint64_t in = 0, out = 0;
  int64_t divisor = 1;
  int64_t splits = 1;
};

void submit(int device, Work& work) {
  Reduction& r = work.reduction;
  const auto& lanes = r.across ? work.reduced : work.kept;
  const auto& uniform = r.across ? work.kept : work.reduced;
  r.lane_dims = static_cast<uint8_t>(lanes.size());
  r.uniform_dims = static_cast<uint8_t>(uniform.size());
  const ReductionSlots slots(r);
  TORCH_CHECK(slots.count() <= kMaxSlots, "emu: a reduction over ", lanes.size() + uniform.size(),
              " dimensions is more than one launch takes; make the tensor contiguous first");
  uint64_t args[kMaxSlots];
  const int64_t lane_count = elements(lanes);
  const int64_t chunks = (lane_count + kReduceLanes - 1) / kReduceLanes;
  const int64_t per_split = (chunks + work.splits - 1) / work.splits * kReduceLanes;
  args[ReductionSlots::lane_count] = static_cast<uint64_t>(lane_count);
  args[ReductionSlots::loop_count] = static_cast<uint64_t>(elements(uniform));
  args[ReductionSlots::per_split] = static_cast<uint64_t>(per_split);
  args[ReductionSlots::divisor] = argument_bits(work.divisor, compute_type(accumulator(r)));
  args[ReductionSlots::out] = work.out;
  args[ReductionSlots::in] = work.in;
  for (size_t k = 0; k < lanes.size(); ++k) {
    const int dim = static_cast<int>(k);
    args[slots.lane(0, dim)] = static_cast<uint64_t>(lanes[k].size);
    args[slots.lane(1, dim)] = static_cast<uint64_t>(lanes[k].in);
    args[slots.lane(2, dim)] = static_cast<uint64_t>(lanes[k].out);
  }
  for (size_t k = 0; k < uniform.size(); ++k) {
    const int dim = static_cast<int>(k);
    args[slots.uniform(0, dim)] = static_cast<uint64_t>(uniform[k].size);
    args[slots.uniform(1, dim)] = static_cast<uint64_t>(uniform[k].in);
    args[slots.uniform(2, dim)] = static_cast<uint64_t>(uniform[k].out);
  }
  const Grid grid = r.across ? Grid{blocks(elements(uniform), 1), static_cast<uint32_t>(work.splits), 1}
                             : Grid{blocks(lane_count, kReduceLanes), 1, 1};
  launch(device, key_of(r), [&r] { return write_program(r); }, grid, args, slots.count());
}

// A long reduction to few outputs: partial results of the accumulator's type, then their reduction.
void submit_in_two_stages(const at::Device& device, Work& work, int64_t outputs, int64_t length) {
  const int64_t splits = std::min<int64_t>(128, length / (8 * kReduceLanes));
  const Element partial_element = accumulator(work.reduction);
  const c10::ScalarType type = partial_element == Element::f32   ? at::kFloat
                               : partial_element == Element::f64 ? at::kDouble
                               : partial_element == Element::i32 ? at::kInt
                                                                 : at::kLong;
  const int64_t chunks = (length + kReduceLanes - 1) / kReduceLanes;
  const int64_t used = (chunks + (chunks + splits - 1) / splits - 1) / ((chunks + splits - 1) / splits);
  const Tensor partial = at::empty({outputs, used}, at::TensorOptions(device).dtype(type));
  const auto item = static_cast<int64_t>(size_of(partial_element));

  Work first = work;
  first.splits = used;
  first.reduction.mean = false;
  first.reduction.out = partial_element;
  first.out = address(partial.mutable_data_ptr());
  int64_t place = item * used;
  for (Dim& dim : first.kept) {
    dim.out = place;
    place *= dim.size;
  }
  submit(device.index(), first);

  work.in = first.out;
  work.reduction.in = partial_element;
  work.reduced = {{used, item, 0}};
  for (size_t k = 0; k < work.kept.size(); ++k) work.kept[k].in = first.kept[k].out;
  submit(device.index(), work);
}

void reduce(at::TensorIterator& iterator, Reduce kind, bool mean = false) {
  if (iterator.numel() == 0) return;  // the wrappers have filled outputs of empty reductions
  Work work;
  work.reduction.reduce = kind;
  work.reduction.mean = mean;
  const char* name = "a reduction";
  work.reduction.out = element_of(iterator.dtype(0), name);
  work.reduction.in = element_of(iterator.dtype(iterator.ntensors() - 1), name);
  const int input = iterator.ntensors() - 1;
  work.out = address(iterator.data_ptr(0));
  work.in = address(iterator.data_ptr(input));
  for (int k = 0; k < iterator.ndim(); ++k) {
    const auto dim = static_cast<size_t>(k);
    const Dim here{iterator.shape()[dim], iterator.strides(input)[dim], iterator.strides(0)[dim]};
    if (here.size == 1) continue;
    (here.out == 0 ? work.reduced : work.kept).push_back(here);
  }
  const int64_t outputs = elements(work.kept);
  const int64_t length = elements(work.reduced);
  work.divisor = length;
  const bool split = outputs <= kFewOutputs && length >= kSplitFrom && !is_arg(kind);
  work.reduction.across = split || outputs < 16 || length >= 512 ||
                          (length >= 32 && !work.reduced.empty() && work.reduced[0].in == static_cast<int64_t>(size_of(work.reduction.in)));
  if (split)
    submit_in_two_stages(iterator.device(0), work, outputs, length);
  else
    submit(iterator.device(0).index(), work);
}

template <Reduce kind>
void kernel(at::TensorIterator& iterator) {
  reduce(iterator, kind);
}

}  // namespace
}  // namespace emu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(min_values_stub, &emu::kernel<emu::Reduce::min>)
REGISTER_PRIVATEUSE1_DISPATCH(max_values_stub, &emu::kernel<emu::Reduce::max>)
REGISTER_PRIVATEUSE1_DISPATCH(or_stub, &emu::kernel<emu::Reduce::any>)
REGISTER_PRIVATEUSE1_DISPATCH(and_stub, &emu::kernel<emu::Reduce::all>)
REGISTER_PRIVATEUSE1_DISPATCH(argmin_stub, &emu::kernel<emu::Reduce::argmin>)
REGISTER_PRIVATEUSE1_DISPATCH(argmax_stub, &emu::kernel<emu::Reduce::argmax>)
}  // namespace at::native

namespace emu {
namespace {

Tensor sum(const Tensor& self, std::optional<at::ScalarType> type) { return at::sum(self, at::IntArrayRef{}, false, type); }
Tensor prod(const Tensor& self, std::optional<at::ScalarType> type) { return at::prod(self.reshape({-1}), 0, false, type); }
Tensor max_all(const Tensor& self) { return at::amax(self, at::IntArrayRef{}, false); }
Tensor min_all(const Tensor& self) { return at::amin(self, at::IntArrayRef{}, false); }

// max and min along a dimension: the values and where they are.
template <bool largest>
struct Extreme : std::conditional_t<largest, at::meta::structured_max_dim, at::meta::structured_min_dim> {
  void run(const Tensor& self, int64_t dim, bool keepdim) {
    this->meta(self, dim, keepdim);
    at::assert_no_partial_overlap(this->maybe_get_output(0), self);
    at::assert_no_partial_overlap(this->maybe_get_output(1), self);
    // Booleans are ordered as their bytes are; argmax itself refuses them.
    const Tensor ordered = self.scalar_type() == at::kBool ? self.view(at::kByte) : self;
    const Tensor places = largest ? at::argmax(ordered, dim, keepdim) : at::argmin(ordered, dim, keepdim);
    this->maybe_get_output(0).copy_(largest ? at::amax(self, dim, keepdim) : at::amin(self, dim, keepdim));
    this->maybe_get_output(1).copy_(places);
  }
};
template <bool largest>
std::tuple<Tensor, Tensor> extreme(const Tensor& self, int64_t dim, bool keepdim) {
  Functional<Extreme<largest>, 2> op;
  op.run(self, dim, keepdim);
  return {std::move(op.outputs[0]), std::move(op.outputs[1])};
}
template <bool largest>
std::tuple<Tensor&, Tensor&> extreme_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  Out<Extreme<largest>, 2> op(false, values, indices);
  op.run(self, dim, keepdim);
  op.finish();
  return {values, indices};
}

// The iterator of a sum or a product, whose input is converted as it is loaded where that is the same.
at::TensorIterator accumulation(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, const Tensor& out) {
  const bool as_loaded = supported(self.scalar_type()) && accumulates(element_of(out.scalar_type(), "a sum"));
  return at::meta::make_reduction(self, out, dims, keepdim, as_loaded ? self.scalar_type() : out.scalar_type());
}
struct Sum : at::meta::structured_sum_dim_IntList {
  void impl(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType>,
            const Tensor& out) {
    auto iterator = accumulation(self, dims, keepdim, out);
    if (iterator.numel() == 0) return void(const_cast<Tensor&>(out).zero_());
    reduce(iterator, Reduce::sum);
  }
};
struct Prod : at::meta::structured_prod_dim_int {
  void impl(const Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType>,
            const Tensor& out) {
    auto iterator = accumulation(self, dim, keepdim, out);
    if (iterator.numel() == 0) return void(const_cast<Tensor&>(out).fill_(1));
    reduce(iterator, Reduce::prod);
  }
};
// The CPU divides the sum in place, which refuses these; the iterator of a reduction looks at neither.
struct Mean : at::meta::structured_mean_dim {
  void impl(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType>,
            const Tensor& out) {
    at::assert_no_internal_overlap(out);
    TORCH_CHECK(at::isFloatingType(out.scalar_type()), "result type Float can't be cast to the desired output type ",
                out.scalar_type());
    auto iterator = accumulation(self, dims, keepdim, out);
    if (iterator.numel() == 0) return void(const_cast<Tensor&>(out).fill_(std::numeric_limits<double>::quiet_NaN()));
    reduce(iterator, Reduce::sum, true);
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using namespace at::native;
  EMU_NATIVE(library, "sum", &emu::sum);
  EMU_STRUCTURED_FUNCTIONAL(library, "sum.dim_IntList", Sum);
  EMU_STRUCTURED_OUT(library, "sum.IntList_out", Sum);
  EMU_STRUCTURED_FUNCTIONAL(library, "mean.dim", Mean);
  EMU_STRUCTURED_OUT(library, "mean.out", Mean);
  EMU_NATIVE(library, "prod", &emu::prod);
  EMU_STRUCTURED_FUNCTIONAL(library, "prod.dim_int", Prod);
  EMU_STRUCTURED_OUT(library, "prod.int_out", Prod);
  EMU_STRUCTURED_FUNCTIONAL(library, "amax", structured_amax_out);
  EMU_STRUCTURED_OUT(library, "amax.out", structured_amax_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "amin", structured_amin_out);
  EMU_STRUCTURED_OUT(library, "amin.out", structured_amin_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "argmax", structured_argmax_out);
  EMU_STRUCTURED_OUT(library, "argmax.out", structured_argmax_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "argmin", structured_argmin_out);
  EMU_STRUCTURED_OUT(library, "argmin.out", structured_argmin_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "any.dim", structured_any_out);
  EMU_STRUCTURED_OUT(library, "any.out", structured_any_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "any.dims", structured_any_dims_out);
  EMU_STRUCTURED_OUT(library, "any.dims_out", structured_any_dims_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "any", structured_any_all_out);
  EMU_STRUCTURED_OUT(library, "any.all_out", structured_any_all_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "all.dim", structured_all_out);
  EMU_STRUCTURED_OUT(library, "all.out", structured_all_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "all.dims", structured_all_dims_out);
  EMU_STRUCTURED_OUT(library, "all.dims_out", structured_all_dims_out);
  EMU_STRUCTURED_FUNCTIONAL(library, "all", structured_all_all_out);
  EMU_STRUCTURED_OUT(library, "all.all_out", structured_all_all_out);
  EMU_NATIVE(library, "max", &max_all);
  EMU_NATIVE(library, "min", &min_all);
  EMU_NATIVE(library, "max.dim", &extreme<true>);
  EMU_NATIVE(library, "max.dim_max", &extreme_out<true>);
  EMU_NATIVE(library, "min.dim", &extreme<false>);
  EMU_NATIVE(library, "min.dim_min", &extreme_out<false>);
}

}  // namespace
}  // namespace emu
