// The one path of elementwise operators: a TensorIterator and a row become a launch.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <initializer_list>
#include <optional>

#include "program.h"

namespace emu {

// Element type of a tensor's dtype; raises NotImplementedError naming the operator and dtype otherwise.
Element element_of(c10::ScalarType type, const char* operation);
bool supported(c10::ScalarType type);

// For operators made of several: halves are computed in f32 and rounded once.
inline at::Tensor widened(const at::Tensor& tensor) {
  return c10::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

// Refuses a tensor of another type, in the words of those kernels of the CPU that convert nothing.
inline void check_type(const at::Tensor& tensor, c10::ScalarType type) {
  TORCH_CHECK(tensor.scalar_type() == type, "expected scalar type ", type, " but found ", tensor.scalar_type());
}

// Bits of `value` as a launch argument of an instruction type ("f32", "f64", "i64").
uint64_t argument_bits(const c10::Scalar& value, const char* type);

// Runs `row` over the iterator's operands (one output). `common` is the type of the computation
// where the iterator has none. Zero elements launch nothing.
void run_elementwise(at::TensorIteratorBase& iterator, const Row& row, std::initializer_list<c10::Scalar> scalars = {},
                     std::optional<c10::ScalarType> common = std::nullopt);

// Copies elements through indices: operands are output, source, and an index tensor for each size and
// stride in bytes. `row` is one of rows::gather and its kind, made for that number of indices. `serial`: an element
// after the other. What adds takes float32, int32 and int64, and float64 in series.
void run_indirect(at::TensorIteratorBase& iterator, const Row& row, at::IntArrayRef sizes, at::IntArrayRef strides,
                  bool serial = false);

// Copies bits between operands of one dtype of 1, 2, 4 or 8 bytes, whatever it is.
void run_bit_copy(at::TensorIteratorBase& iterator);

}  // namespace emu
