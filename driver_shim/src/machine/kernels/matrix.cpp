/* Products of tiles: d += a * b, each element of d a chain of fused multiply-adds over k ascending.
 *
 * A micro-kernel keeps kRows rows by up to kVectors vectors of d in registers while it walks down k: a vector of
 * b is loaded once for all rows, an element of a is broadcast once for all columns. The order of the chain of one
 * element doesn't depend on the blocking, so neither do its bits. */
#include "kernels.h"
#include "number.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace emu::machine {
namespace {

#if defined(__AVX512F__)
struct F32 {
  using Element = float;
  using Vector = __m512;
  static Vector load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vector v) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    _mm512_storeu_ps(p, _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan));
  }
  static Vector repeat(float x) { return _mm512_set1_ps(x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
};
struct F64 {
  using Element = double;
  using Vector = __m512d;
  static Vector load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Vector v) {
    const __m512d nan = _mm512_castsi512_pd(_mm512_set1_epi64(0x7ff8000000000000));
    _mm512_storeu_pd(p, _mm512_mask_mov_pd(v, _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), nan));
  }
  static Vector repeat(double x) { return _mm512_set1_pd(x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_pd(a, b, c); }
};
constexpr uint32_t kRows = 6, kVectors = 4;
#elif defined(__AVX2__)
struct F32 {
  using Element = float;
  using Vector = __m256;
  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vector v) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    _mm256_storeu_ps(p, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
  static Vector repeat(float x) { return _mm256_set1_ps(x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
};
struct F64 {
  using Element = double;
  using Vector = __m256d;
  static Vector load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Vector v) {
    const __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    _mm256_storeu_pd(p, _mm256_blendv_pd(v, nan, _mm256_cmp_pd(v, v, _CMP_UNORD_Q)));
  }
  static Vector repeat(double x) { return _mm256_set1_pd(x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
};
constexpr uint32_t kRows = 6, kVectors = 2;
#else
struct F32 {
  using Element = float;
  using Vector = float;
  static Vector load(const float* p) { return *p; }
  static void store(float* p, Vector v) { *p = canonical(v); }
  static Vector repeat(float x) { return x; }
  static Vector fma(Vector a, Vector b, Vector c) { return __builtin_fmaf(a, b, c); }
};
struct F64 {
  using Element = double;
  using Vector = double;
  static Vector load(const double* p) { return *p; }
  static void store(double* p, Vector v) { *p = canonical(v); }
  static Vector repeat(double x) { return x; }
  static Vector fma(Vector a, Vector b, Vector c) { return __builtin_fma(a, b, c); }
};
constexpr uint32_t kRows = 4, kVectors = 2;
#endif

template <class T>
constexpr uint32_t kWidth = sizeof(typename T::Vector) / sizeof(typename T::Element);

template <class T, uint32_t rows, uint32_t vectors>
void micro(typename T::Element* d, const typename T::Element* a, const typename T::Element* b, uint32_t d_stride,
           uint32_t a_stride, uint32_t b_stride, uint32_t depth) {
  typename T::Vector sum[rows][vectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (uint32_t v = 0; v < vectors; ++v) sum[r][v] = T::load(d + r * d_stride + v * kWidth<T>);
  for (uint32_t k = 0; k < depth; ++k) {
    typename T::Vector row[vectors];
#pragma GCC unroll 8
    for (uint32_t v = 0; v < vectors; ++v) row[v] = T::load(b + k * b_stride + v * kWidth<T>);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; ++r) {
      const typename T::Vector scale = T::repeat(a[r * a_stride + k]);
#pragma GCC unroll 8
      for (uint32_t v = 0; v < vectors; ++v) sum[r][v] = T::fma(scale, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (uint32_t v = 0; v < vectors; ++v) T::store(d + r * d_stride + v * kWidth<T>, sum[r][v]);
}

/* All rows of a panel of `vectors` vectors of columns. */
template <class T, uint32_t vectors>
void panel(typename T::Element* d, const typename T::Element* a, const typename T::Element* b, uint32_t d_stride,
           uint32_t a_stride, uint32_t b_stride, uint32_t rows, uint32_t depth) {
  uint32_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    micro<T, kRows, vectors>(d + r * d_stride, a + r * a_stride, b, d_stride, a_stride, b_stride, depth);
  for (; r + 2 <= rows; r += 2)
    micro<T, 2, vectors>(d + r * d_stride, a + r * a_stride, b, d_stride, a_stride, b_stride, depth);
  for (; r < rows; ++r)
    micro<T, 1, vectors>(d + r * d_stride, a + r * a_stride, b, d_stride, a_stride, b_stride, depth);
}

template <class T>
void multiply_add_of(TileView d, TileView a, TileView b, uint32_t rows, uint32_t columns, uint32_t depth) {
  using Element = typename T::Element;
  Element* to = static_cast<Element*>(d.data);
  const Element* from = static_cast<const Element*>(a.data);
  const Element* by = static_cast<const Element*>(b.data);
  uint32_t c = 0;
  for (; c + kVectors * kWidth<T> <= columns; c += kVectors * kWidth<T>)
    panel<T, kVectors>(to + c, from, by + c, d.stride, a.stride, b.stride, rows, depth);
  for (; c < columns; c += kWidth<T>) /* the last vector may reach into the padding */
    panel<T, 1>(to + c, from, by + c, d.stride, a.stride, b.stride, rows, depth);
}

/* Integers wrap, so the order doesn't show. */
void multiply_add_of_integers(TileView d, TileView a, TileView b, uint32_t rows, uint32_t columns, uint32_t depth) {
  for (uint32_t r = 0; r < rows; ++r) {
    uint32_t* to = static_cast<uint32_t*>(d.data) + r * d.stride;
    for (uint32_t k = 0; k < depth; ++k) {
      const uint32_t scale = static_cast<const uint32_t*>(a.data)[r * a.stride + k];
      const uint32_t* by = static_cast<const uint32_t*>(b.data) + k * b.stride;
#pragma GCC ivdep
      for (uint32_t c = 0; c < columns; ++c) to[c] += scale * by[c];
    }
  }
}

}  // namespace

namespace EMU_LEVEL {

MultiplyAdd multiply_add(Type type) {
  switch (type) {
    case Type::f32: return multiply_add_of<F32>;
    case Type::f64: return multiply_add_of<F64>;
    case Type::i32: return multiply_add_of_integers;
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
