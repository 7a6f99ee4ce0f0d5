// Text of reduction programs. Nothing here knows PyTorch or the runtime.
//
// The dimensions of a reduction are parted in two: those that lanes run over, and those that
// are the same for all lanes of a block (uniform).
//   across: a block makes one output; lanes run over the reduced dimensions, in chunks.
//   along: lanes run over outputs; a loop walks the reduced dimensions.
#pragma once

#include <string>

#include "program.h"

namespace emu {

enum class Reduce : uint8_t { sum, prod, min, max, any, all, argmin, argmax };

struct Reduction {
  Reduce reduce = Reduce::sum;
  bool across = true;
  bool mean = false;  // divide by the number of elements, given in a slot
  Element in = Element::f32;
  Element out = Element::f32;
  uint8_t lane_dims = 0;
  uint8_t uniform_dims = 0;
};

// Slots: lane elements; loop count (along: reduced elements); elements per split (across);
// divisor; output address; input address; then for lane dims sizes, input strides, output
// strides (along), and for uniform dims sizes, input strides, output strides (across).
struct ReductionSlots {
  explicit ReductionSlots(const Reduction& r) : lanes_(r.lane_dims), uniform_(r.uniform_dims) {}
  static constexpr int lane_count = 0, loop_count = 1, per_split = 2, divisor = 3, out = 4, in = 5, first = 6;
  int lane(int field, int dim) const { return first + field * lanes_ + dim; }
  int uniform(int field, int dim) const { return first + 3 * lanes_ + field * uniform_ + dim; }
  int count() const { return first + 3 * (lanes_ + uniform_); }

 private:
  int lanes_;
  int uniform_;
};

constexpr int kReduceLanes = 1024;

// Sums and products accumulate in the output's type where it is one of these, whatever the input's is.
bool is_sum(Reduce);
bool accumulates(Element out);
Element accumulator(const Reduction&);
bool is_arg(Reduce);
std::string write_program(const Reduction&);

}  // namespace emu
