#include "elementwise.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <c10/core/ScalarType.h>

#include <cstring>

#include "bounds.h"
#include "counts.h"
#include "fallback.h"
#include "launch.h"
#include "rows.h"

namespace emu {
namespace {

constexpr int kMaxSlots = 512;         // the machine takes 4096 bytes of arguments
constexpr int64_t kLongRow = 256;  // from here on a block per row beats index arithmetic per lane

std::optional<Element> find_element(c10::ScalarType type) {
  switch (type) {
    case at::kFloat: return Element::f32;
    case at::kDouble: return Element::f64;
    case at::kHalf: return Element::f16;
    case at::kBFloat16: return Element::bf16;
    case at::kChar: return Element::i8;
    case at::kShort: return Element::i16;
    case at::kInt: return Element::i32;
    case at::kLong: return Element::i64;
    case at::kByte: return Element::u8;
    case at::kBool: return Element::boolean;
    default: return std::nullopt;
  }
}

// The iterator's common dtype, Undefined where it did not compute one (its accessor asserts that it did).
c10::ScalarType common_type(const at::TensorIteratorBase& iterator) {
  struct Access : at::TensorIteratorBase {
    static c10::ScalarType of(const at::TensorIteratorBase& base) { return base.*(&Access::common_dtype_); }
  };
  return Access::of(iterator);
}

// The value of a zero-dimensional CPU tensor in the common type: converted as a tensor is, which wraps
// integers and rounds halves, unless the row takes it wider.
c10::Scalar host_scalar(const at::TensorBase& tensor, c10::ScalarType common, bool wide) {
  const at::Tensor value(tensor);
  return (wide && at::isReducedFloatingType(common) ? value : value.to(common)).item();
}

// A scalar argument in the common type: one that does not fit is refused, as PyTorch does.
c10::Scalar fitting(const c10::Scalar& value, c10::ScalarType common, const Row& row, int scalar) {
  if (row.scalar_type != nullptr || (((row.wide >> scalar) & 1) != 0 && at::isReducedFloatingType(common))) return value;
  return AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, common, "scalar argument",
                                    [&] { return c10::Scalar(value.to<scalar_t>()); });
}

bool follows_row_major(const at::TensorIteratorBase& iterator, int operand, int64_t item) {
  int64_t expected = item;
  for (int dim = 0; dim < iterator.ndim(); ++dim) {
    if (iterator.strides(operand)[static_cast<size_t>(dim)] != expected) return false;
    expected *= iterator.shape()[static_cast<size_t>(dim)];
  }
  return true;
}

ProgramKey key_of(const Signature& s) {
  uint64_t first = static_cast<uint64_t>(s.layout) | static_cast<uint64_t>(s.common) << 2 |
                   static_cast<uint64_t>(s.operands) << 6 | static_cast<uint64_t>(s.narrow) << 10 |
                   static_cast<uint64_t>(s.dims) << 11 | static_cast<uint64_t>(s.serial) << 19;
  uint64_t second = 0;
  for (int k = 0; k < s.operands; ++k)
    second |= (static_cast<uint64_t>(s.operand[k].element) | static_cast<uint64_t>(s.operand[k].access) << 4) << (6 * k);
  return {s.row, first, second};
}

// How the operands lie decides the layout; fills `access` of every operand.
void choose_layout(const at::TensorIteratorBase& iterator, Signature& s, const bool* uniform) {
  const int dims = iterator.ndim();
  s.dims = static_cast<uint8_t>(dims == 0 ? 1 : dims);
  const int64_t inner = dims == 0 ? 1 : iterator.shape()[0];
  s.layout = dims <= 1 ? Layout::flat : inner >= kLongRow ? Layout::rows : Layout::general;
  s.narrow = s.layout != Layout::general || iterator.numel() < (int64_t{1} << 31);
  for (int k = 0; k < s.operands; ++k) {
    const int64_t item = static_cast<int64_t>(size_of(s.operand[k].element));
    bool contiguous = false;
    if (s.layout == Layout::general)
      contiguous = follows_row_major(iterator, k, item);
    else
      contiguous = dims == 0 || inner == 1 || iterator.strides(k)[0] == item;
    s.operand[k].access = uniform[k] ? Access::uniform : contiguous ? Access::contiguous : Access::strided;
  }
}

// Fills in the sizes and strides of a chosen layout, and launches. `args` has the operands and scalars.
void submit(const at::TensorIteratorBase& iterator, const Signature& s, uint64_t* args) {
  TORCH_CHECK(slots(s) <= kMaxSlots, "emu: ", s.row->name, " over ", iterator.ndim(),
              " dimensions is more than one launch takes; make the tensors contiguous first");
  const int64_t inner = s.layout == Layout::rows ? iterator.shape()[0] : iterator.numel();
  args[0] = static_cast<uint64_t>(inner);
  for (int k = 0; k < s.operands; ++k)
    for (int dim = 0; dim < s.dims; ++dim)
      args[slot_of_stride(s, k, dim)] =
          iterator.ndim() == 0 ? 0 : static_cast<uint64_t>(iterator.strides(k)[static_cast<size_t>(dim)]);
  if (s.layout != Layout::flat)
    for (int dim = 0; dim < s.dims; ++dim)
      args[slot_of_size(s, dim)] =
          iterator.ndim() == 0 ? 1 : static_cast<uint64_t>(iterator.shape()[static_cast<size_t>(dim)]);
  Grid grid{s.serial ? 1 : blocks(inner, kLanes), 1, 1};
  if (s.layout == Layout::rows) grid[1] = blocks(iterator.numel() / inner, 1);
  launch(iterator.device(0).index(), key_of(s), [&s] { return write_program(s); }, grid, args, slots(s));
}

}  // namespace

bool supported(c10::ScalarType type) { return find_element(type).has_value(); }

Element element_of(c10::ScalarType type, const char* operation) {
  const auto found = find_element(type);
  if (!found.has_value()) unsupported(operation, " of ", type);
  return *found;
}

uint64_t argument_bits(const c10::Scalar& value, const char* type) {
  uint64_t bits = 0;
  if (std::strcmp(type, "f32") == 0) {
    const auto number = static_cast<float>(value.to<double>());
    std::memcpy(&bits, &number, sizeof number);
  } else if (std::strcmp(type, "f64") == 0) {
    const auto number = value.to<double>();
    std::memcpy(&bits, &number, sizeof number);
  } else {
    const auto number = value.to<int64_t>();
    std::memcpy(&bits, &number, sizeof number);
  }
  return bits;
}

namespace {

// The integer type that moves an element's bits unchanged.
Element bits_of(c10::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1: return Element::u8;
    case 2: return Element::i16;
    case 4: return Element::i32;
    case 8: return Element::i64;
    default: unsupported("moving elements of ", type);
  }
}

}  // namespace

void run_indirect(at::TensorIteratorBase& iterator, const Row& row, at::IntArrayRef sizes, at::IntArrayRef strides,
                  bool serial) {
  if (iterator.numel() == 0) return;
  Signature s;
  s.row = &row;
  s.operands = static_cast<uint8_t>(iterator.ntensors());
  s.layout = Layout::general;
  s.dims = static_cast<uint8_t>(iterator.ndim() == 0 ? 1 : iterator.ndim());
  s.narrow = iterator.numel() < (int64_t{1} << 31);
  s.serial = serial;
  s.common = row.indirect == Indirect::add_wrap ? element_of(iterator.dtype(0), row.name) : bits_of(iterator.dtype(0));
  TORCH_INTERNAL_ASSERT(s.operands <= kMaxOperands && row.scalars == 2 * sizes.size() + 2);
  uint64_t args[kMaxSlots];
  for (int k = 0; k < s.operands; ++k) {
    s.operand[k] = {k < 2 ? s.common : element_of(iterator.dtype(k), row.name), Access::strided};
    args[slot_of_operand(k)] = address(iterator.data_ptr(k));
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    args[slot_of_scalar(s, static_cast<int>(2 * k))] = static_cast<uint64_t>(sizes[k]);
    args[slot_of_scalar(s, static_cast<int>(2 * k + 1))] = static_cast<uint64_t>(strides[k]);
  }
  const int device = iterator.device(0).index();
  const BoundsLaunch bounds(device);
  args[slot_of_scalar(s, row.scalars - 2)] = bounds.record();
  args[slot_of_scalar(s, row.scalars - 1)] = bounds.told();
  submit(iterator, s, args);
  bounds.launched();
}

void run_bit_copy(at::TensorIteratorBase& iterator) {
  if (iterator.numel() == 0) return;
  Signature s;
  s.row = &rows::copy;
  s.operands = 2;
  s.common = bits_of(iterator.dtype(0));
  uint64_t args[kMaxSlots];
  for (int k = 0; k < 2; ++k) {
    s.operand[k].element = s.common;
    args[slot_of_operand(k)] = address(iterator.data_ptr(k));
  }
  const bool uniform[kMaxOperands]{};
  choose_layout(iterator, s, uniform);
  submit(iterator, s, args);
}

void run_elementwise(at::TensorIteratorBase& iterator, const Row& row, std::initializer_list<c10::Scalar> scalars,
                     std::optional<c10::ScalarType> given_common) {
  if (iterator.numel() == 0) return;
  Signature s;
  s.row = &row;
  s.operands = static_cast<uint8_t>(iterator.ntensors());
  const auto common = given_common.has_value()                              ? *given_common
                      : common_type(iterator) != c10::ScalarType::Undefined ? common_type(iterator)
                      : iterator.ntensors() > 1                          ? iterator.dtype(iterator.noutputs())
                                                                         : iterator.dtype(0);
  s.common = element_of(common, row.name);
  const uint8_t kind = common == at::kBool ? kBooleans : is_float(s.common) ? kFloats : kIntegers;
  if ((row.domain & kind) == 0) unsupported(row.name, " of ", common);
  const c10::Device where = iterator.device(0);
  bool uniform[kMaxOperands]{};
  for (int k = 0; k < s.operands; ++k) {
    s.operand[k].element = element_of(iterator.dtype(k), row.name);
    uniform[k] = k != 0 && iterator.is_cpu_scalar(k);
    TORCH_CHECK(uniform[k] || iterator.device(k) == where, "Expected all tensors to be on the same device, but got ", where,
                " and ", iterator.device(k), " in ", row.name);
    // A host value arrives in the compute type, whatever its own type was.
    if (uniform[k]) s.operand[k].element = s.common;
  }
  choose_layout(iterator, s, uniform);

  uint64_t args[kMaxSlots];
  for (int k = 0; k < s.operands; ++k) {
    const bool mask = k != 0 && ((row.masks >> (k - 1)) & 1) != 0;
    args[slot_of_operand(k)] =
        uniform[k] ? argument_bits(host_scalar(iterator.tensor_base(k), mask ? at::kBool : common, k == 2 && (row.wide & kWideSecond) != 0),
                                   is_float(mask ? Element::boolean : s.common) ? compute_type(s.common) : "i64")
                   : address(iterator.data_ptr(k));
  }
  int at = 0;
  for (const c10::Scalar& scalar : scalars) {
    args[slot_of_scalar(s, at)] = argument_bits(fitting(scalar, common, row, at), scalar_type(s));
    ++at;
  }
  TORCH_INTERNAL_ASSERT(at == row.scalars, row.name, " takes ", int{row.scalars}, " scalars, got ", at);
  submit(iterator, s, args);
}

}  // namespace emu
