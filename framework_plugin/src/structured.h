// Functional, out= and in-place kernels of a structured operator, from its meta function.
//
// `Op` is a class of PyTorch's own meta function (shapes, type promotion, error checks: those
// of the CPU) with an `impl` that writes the output. The three kernels differ only in where the
// output comes from, so they are made here once for all operators of one output. Functional and Out
// take any number of them, for operators with another shape of `impl`.
#pragma once

#include <c10/util/Exception.h>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <c10/core/OptionalRef.h>

#include <array>
#include <optional>

#include "counts.h"

namespace emu {

// Meta functions take references where the dispatcher passes optionals.
template <class T>
struct Passed {
  using type = T;
  static T meta(T value) { return value; }
};
template <>
struct Passed<at::OptionalScalarRef> {
  using type = const std::optional<at::Scalar>&;
  static at::OptionalScalarRef meta(type value) {
    return value.has_value() ? at::OptionalScalarRef(&*value) : at::OptionalScalarRef();
  }
};
template <>
struct Passed<at::OptionalTensorRef> {
  using type = const std::optional<at::Tensor>&;
  static at::OptionalTensorRef meta(type value) {
    return value.has_value() && value->defined() ? at::OptionalTensorRef(*value) : at::OptionalTensorRef();
  }
};
template <class T>
using passed = typename Passed<T>::type;

inline at::Tensor make_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  return strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
}

// Calls the base only where it keeps an output of its own (TensorIterator does, MetaBase does not).
template <class Op>
constexpr bool is_iterator = std::is_base_of_v<at::TensorIteratorBase, Op>;

template <class Op, size_t count = 1>
struct Functional final : Op {
  void set_output_raw_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    outputs[static_cast<size_t>(k)] = make_output(sizes, strides, options);
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  void set_output_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    set_output_raw_strided(k, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t k) override { return outputs[static_cast<size_t>(k)]; }
  std::array<at::Tensor, count> outputs;
};

template <class Op, size_t count = 1>
struct Out final : Op {
  template <class... Given>
  explicit Out(bool is_in_place, const Given&... to) : given{&to...}, in_place(is_in_place) {
    static_assert(sizeof...(Given) == count);
  }
  void set_output_raw_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    const at::Tensor& to = *given[static_cast<size_t>(k)];
    check_types(to, options);
    if (in_place) {
      TORCH_CHECK(to.sizes().equals(sizes), "output with shape ", to.sizes(), " doesn't match the broadcast shape ", sizes);
    } else if (at::native::resize_output(to, sizes) && !strides.empty()) {
      to.as_strided_(sizes, strides);
    }
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  void set_output_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    const at::Tensor& to = *given[static_cast<size_t>(k)];
    check_types(to, options);
    if (!in_place) at::native::resize_output(to, sizes);
    if (!to.strides().equals(strides)) proxies[static_cast<size_t>(k)] = at::empty_strided(sizes, strides, options);
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t k) override {
    const auto& proxy = proxies[static_cast<size_t>(k)];
    return proxy.has_value() ? *proxy : *given[static_cast<size_t>(k)];
  }
  void finish() {
    for (size_t k = 0; k < count; ++k)
      if (proxies[k].has_value()) given[k]->copy_(*proxies[k]);
  }

  static void check_types(const at::Tensor& to, const at::TensorOptions& options) {
    TORCH_CHECK(options.dtype() == to.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", to.dtype(),
                " instead");
    TORCH_CHECK(options.device() == to.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                to.device(), " instead");
  }
  std::array<const at::Tensor*, count> given;
  std::array<std::optional<at::Tensor>, count> proxies;
  bool in_place;
};

template <class Op, class Meta = decltype(&Op::meta)>
struct Kernels;
template <class Op, class Base, class First, class... Rest>
struct Kernels<Op, void (Base::*)(First, Rest...)> {
  static at::Tensor functional(passed<First> first, passed<Rest>... rest) {
    Functional<Op> op;
    op.meta(Passed<First>::meta(first), Passed<Rest>::meta(rest)...);
    op.impl(Passed<First>::meta(first), Passed<Rest>::meta(rest)..., op.maybe_get_output(0));
    return std::move(op.outputs[0]);
  }
  static at::Tensor& out(passed<First> first, passed<Rest>... rest, at::Tensor& to) {
    Out<Op> op(false, to);
    op.meta(Passed<First>::meta(first), Passed<Rest>::meta(rest)...);
    op.impl(Passed<First>::meta(first), Passed<Rest>::meta(rest)..., op.maybe_get_output(0));
    op.finish();
    return to;
  }
  static at::Tensor& in_place(at::Tensor& self, passed<Rest>... rest) {
    Out<Op> op(true, self);
    op.meta(self, Passed<Rest>::meta(rest)...);
    op.impl(self, Passed<Rest>::meta(rest)..., op.maybe_get_output(0));
    op.finish();
    return self;
  }
};

template <class Op>
constexpr Devices devices_of = is_iterator<Op> ? Devices::any : Devices::one;

// Names as the schema has them: `add` with overload `Tensor` is add.Tensor, add.out and add_.Tensor.
#define EMU_STRUCTURED_KERNEL(library, name, kind, ...) \
  EMU_NATIVE(library, name, &::emu::Kernels<__VA_ARGS__>::kind, ::emu::devices_of<__VA_ARGS__>)
#define EMU_STRUCTURED_FUNCTIONAL(library, name, ...) EMU_STRUCTURED_KERNEL(library, name, functional, __VA_ARGS__)
#define EMU_STRUCTURED_OUT(library, name, ...) EMU_STRUCTURED_KERNEL(library, name, out, __VA_ARGS__)
#define EMU_STRUCTURED_IN_PLACE(library, name, ...) EMU_STRUCTURED_KERNEL(library, name, in_place, __VA_ARGS__)

}  // namespace emu
