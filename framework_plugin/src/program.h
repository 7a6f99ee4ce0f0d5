// Text of elementwise device programs, made from one expression.
//
// An operator is a `Row`: a few instruction lines over named values. `write_program` adds
// what every such program needs: the block's part of the index space, addresses for the
// layout, loads, conversions between the element types and the type it computes in, stores.
// Nothing here knows PyTorch or the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emu {

enum class Element : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, boolean };

size_t size_of(Element);
const char* memory_type(Element);   // name in the instruction set; a boolean is a u8 of 0 or 1
const char* compute_type(Element);  // f16 and bf16 compute in f32
bool is_float(Element);

// Where a program tells of an index out of range, in device memory: an entry for each index operand.
// `told` is written last: what the launch was given for it, never 0.
struct BoundsRecord {
  static constexpr int kEntries = 4;
  uint64_t told[kEntries];
  int64_t index[kEntries];
  int64_t bound[kEntries];
};

// Operands from the third on are indices into the second (gather) or into the output (scatter): scalars
// are the size and the stride in bytes that each index counts in, then the address of a BoundsRecord
// and what the launch tells it. Where an index is out of range the output keeps what it held, and the
// record is written. `wrap`: negative indices count from the end. `put` and `add` read what gather writes, and
// write what it reads: they go from the first operand into the second, where `add` adds.
enum class Indirect : uint8_t { none, gather, gather_wrap, scatter, scatter_wrap, put_wrap, add_wrap };

// Bits of Row::domain, and of Row::wide: scalars x = 1, y = 2, z = 4, and the second input.
constexpr uint8_t kFloats = 1, kIntegers = 2, kBooleans = 4;
constexpr uint8_t kNumbers = kFloats | kIntegers, kBits = kIntegers | kBooleans, kAny = kNumbers | kBooleans;
constexpr uint8_t kWideSecond = 128;

// Values in the text: `a` to `f` inputs, `o` the output, `x` to `z` scalars, `t0` to `t9`
// temporaries, `p0` to `p5` predicates, `i` the linear index (i64), `#1.5` a constant of the
// instruction's type. `$T` is the compute type. Lines are parted by `;`.
struct Row {
  const char* name;
  const char* text;
  const char* integer = nullptr;  // in place of `text` where the common type is an integer
  const char* boolean = nullptr;  // and where it is boolean
  uint8_t scalars = 0;
  bool predicate = false;         // the result is p0 instead of `o`
  uint8_t masks = 0;              // bit i: input i stays a boolean, whatever the common type
  const char* scalar_type = nullptr;  // of x to z, where it is not that of the computation
  Indirect indirect = Indirect::none;
  uint8_t wide = 0;                   // f16 and bf16: which numbers of the host keep f32 instead of rounding first
  uint8_t domain = kFloats;           // common types that PyTorch has it for: others are refused
};

enum class Access : uint8_t { contiguous, strided, uniform };
enum class Layout : uint8_t {
  flat,     // one dimension: each operand contiguous or with one stride
  rows,     // long innermost dimension: a block is a part of one row
  general,  // index arithmetic for each lane, gather and scatter
};

constexpr int kMaxOperands = 7;
constexpr int kLanes = 2048;

struct Operand {
  Element element = Element::f32;
  Access access = Access::contiguous;
};

// Everything the text depends on. Operand 0 is the output.
struct Signature {
  const Row* row = nullptr;
  Layout layout = Layout::flat;
  Element common = Element::f32;
  uint8_t operands = 0;
  uint8_t dims = 1;
  bool narrow = true;  // general: fewer than 2^31 elements, so that indices are i32
  bool serial = false;  // general: one block, an element after the other, where the order is part of the result
  Operand operand[kMaxOperands];
};

// Launch arguments are 8-byte slots: element count (flat, general) or length of a row; one
// for each operand (address, or value of a uniform); scalars; then for flat a stride for each
// operand, else the sizes, innermost first, and for each operand its strides. Strides are bytes.
inline int slot_of_operand(int operand) { return 1 + operand; }
inline int slot_of_scalar(const Signature& s, int scalar) { return 1 + s.operands + scalar; }
inline int slot_of_size(const Signature& s, int dim) { return 1 + s.operands + s.row->scalars + dim; }
inline int slot_of_stride(const Signature& s, int operand, int dim) {
  return s.layout == Layout::flat ? 1 + s.operands + s.row->scalars + operand
                                  : 1 + s.operands + s.row->scalars + s.dims * (1 + operand) + dim;
}
inline int slots(const Signature& s) { return slot_of_stride(s, s.operands - 1, s.dims - 1) + 1; }

constexpr Row over(uint8_t domain, Row row) {
  row.domain = domain;
  return row;
}
constexpr Row wide(uint8_t which, Row row) {
  row.wide = which;
  return row;
}

const char* scalar_type(const Signature&);
std::string write_program(const Signature&);

}  // namespace emu
