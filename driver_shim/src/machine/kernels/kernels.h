/* Kernels: one loop over lanes each, compiled once for each host instruction set (Level).
 *
 * Sources in this folder are built several times with different target flags. They hold nothing but functions
 * in anonymous namespaces and use no standard library templates: an inline function compiled here with AVX-512
 * could otherwise be the copy that the linker keeps for everyone. */
#ifndef EMU_MACHINE_KERNELS_H
#define EMU_MACHINE_KERNELS_H

#include <cstddef>
#include <cstdint>

#include "isa_tables.h"

namespace emu::machine {

/* Lanes that a uniform operand is repeated over; kernels step through vectors by as many. */
constexpr uint32_t kStep = 64;

/* A vector of elements, or (`uniform`) kStep copies of one. */
struct Source {
  const void* data;
  bool uniform;
};

/* destination[i] = f(sources[0][i], ...) for i < lanes, or for a scan of lanes 0 .. i. The destination may be one of
 * the sources when their elements have the same size. Predicates are bytes, 0 or 1. */
using Elementwise = void (*)(void* destination, const Source* sources, uint32_t lanes);

/* *destination = reduction of lanes elements, as 64 bits of a uniform register. */
using Reduction = void (*)(uint64_t* destination, const void* source, uint32_t lanes);

/* Tiles are row-major with `stride` elements from row to row, a multiple of 64 bytes; what lies between the
 * columns and the stride may be overwritten. d (rows x columns) += a (rows x depth) * b (depth x columns). */
struct TileView {
  void* data;
  uint32_t stride;
};
using MultiplyAdd = void (*)(TileView d, TileView a, TileView b, uint32_t rows, uint32_t columns, uint32_t depth);

/* Copies whole lines of kLine bytes, both sides aligned to them, past the caches. Other threads may be told of them
 * only after a Fence. */
constexpr size_t kLine = 64;
using Stream = void (*)(void* destination, const void* source, size_t lines);
using Fence = void (*)();

/* Each gives null where it has no such instruction. */
using Finder = Elementwise (*)(Op, Type, Type from, uint8_t mode);

struct Kernels {
  Finder finders[7]; /* each operation is in one of them */
  Reduction (*reduction)(Op, Type, uint8_t mode);
  MultiplyAdd (*multiply_add)(Type);
  Stream stream;
  Fence stream_fence;
};

#define EMU_DECLARE_LEVEL(level)                                   \
  namespace level {                                                \
  Elementwise arithmetic(Op, Type, Type, uint8_t mode);            \
  Elementwise integer(Op, Type, Type, uint8_t mode);               \
  Elementwise exponential(Op, Type, Type, uint8_t mode);           \
  Elementwise trigonometric(Op, Type, Type, uint8_t mode);         \
  Elementwise special(Op, Type, Type, uint8_t mode);               \
  Elementwise conversion(Op, Type to, Type from, uint8_t mode);    \
  Elementwise scan(Op, Type, Type, uint8_t mode);                  \
  Reduction reduction(Op, Type, uint8_t mode);                     \
  MultiplyAdd multiply_add(Type);                                  \
  void stream(void*, const void*, size_t lines);                   \
  void stream_fence();                                             \
  }
EMU_DECLARE_LEVEL(baseline)
EMU_DECLARE_LEVEL(avx2)
EMU_DECLARE_LEVEL(avx512)
#undef EMU_DECLARE_LEVEL

}  // namespace emu::machine

#endif
