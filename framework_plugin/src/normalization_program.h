// Text of programs that normalise rows: softmax, its logarithm, and layer norm. A block makes one row of a contiguous
// matrix. Nothing here knows PyTorch or the runtime.
#pragma once

#include <string>

#include "program.h"

namespace emu {

enum class Normalize : uint8_t { softmax, log_softmax, layer_norm };

struct Normalization {
  Normalize kind = Normalize::softmax;
  Element element = Element::f32;     // of the rows in and out
  Element parameter = Element::f32;   // layer norm: of weight and bias, and of the mean and 1 / deviation given out
  bool weight = false, bias = false;  // layer norm
  uint16_t lanes = 64;                // of the program: a power of two, 64 to kRowLanes
  bool whole = true;                  // a row fits into the lanes; else it is walked in chunks, once for each pass
  bool full = false;                  // a row is as long as the lanes are many
};

constexpr int kRowLanes = 4096;

// Launch arguments are 8-byte slots. Epsilon is a number of the type computed in.
struct NormalizationSlots {
  enum { in, out, length, epsilon, weight, bias, mean, rstd, count };
};

std::string write_program(const Normalization&);

}  // namespace emu
