// Functional, out= and in-place kernels of a structured operator, from its meta function.
//
// `Op` is a class of PyTorch's own meta function (shapes, type promotion, error checks: those
// of the CPU) with an `impl` that writes the output. The three kernels differ only in where the
// output comes from, so they are made here once for all operators of one output.
#pragma once

#include <c10/util/Exception.h>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <c10/core/OptionalRef.h>

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

template <class Op>
struct Functional final : Op {
  void set_output_raw_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    output = make_output(sizes, strides, options);
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  void set_output_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    set_output_raw_strided(k, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t) override { return output; }
  at::Tensor output;
};

template <class Op>
struct Out final : Op {
  explicit Out(const at::Tensor& to, bool is_in_place) : given(to), in_place(is_in_place) {}
  void set_output_raw_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    check_types(options);
    if (in_place) {
      TORCH_CHECK(given.sizes().equals(sizes), "output with shape ", given.sizes(),
                  " doesn't match the broadcast shape ", sizes);
    } else if (at::native::resize_output(given, sizes) && !strides.empty()) {
      given.as_strided_(sizes, strides);
    }
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  void set_output_strided(int64_t k, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    check_types(options);
    if (!in_place) at::native::resize_output(given, sizes);
    if (!given.strides().equals(strides)) proxy = at::empty_strided(sizes, strides, options);
    if constexpr (is_iterator<Op>) Op::set_output_raw_strided(k, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t) override { return proxy.has_value() ? *proxy : given; }
  void finish() {
    if (proxy.has_value()) given.copy_(*proxy);
  }

  void check_types(const at::TensorOptions& options) const {
    TORCH_CHECK(options.dtype() == given.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                given.dtype(), " instead");
    TORCH_CHECK(options.device() == given.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                given.device(), " instead");
  }
  const at::Tensor& given;
  std::optional<at::Tensor> proxy;
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
    return std::move(op.output);
  }
  static at::Tensor& out(passed<First> first, passed<Rest>... rest, at::Tensor& to) {
    Out<Op> op(to, false);
    op.meta(Passed<First>::meta(first), Passed<Rest>::meta(rest)...);
    op.impl(Passed<First>::meta(first), Passed<Rest>::meta(rest)..., op.maybe_get_output(0));
    op.finish();
    return to;
  }
  static at::Tensor& in_place(at::Tensor& self, passed<Rest>... rest) {
    Out<Op> op(self, true);
    op.meta(self, Passed<Rest>::meta(rest)...);
    op.impl(self, Passed<Rest>::meta(rest)..., op.maybe_get_output(0));
    op.finish();
    return self;
  }
};

// Names as the schema has them: `add` with overload `Tensor` is add.Tensor, add.out and add_.Tensor.
#define EMU_STRUCTURED_FUNCTIONAL(library, name, ...) EMU_NATIVE(library, name, &::emu::Kernels<__VA_ARGS__>::functional)
#define EMU_STRUCTURED_OUT(library, name, ...) EMU_NATIVE(library, name, &::emu::Kernels<__VA_ARGS__>::out)
#define EMU_STRUCTURED_IN_PLACE(library, name, ...) EMU_NATIVE(library, name, &::emu::Kernels<__VA_ARGS__>::in_place)

}  // namespace emu
