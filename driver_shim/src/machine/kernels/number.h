/* Number formats and their exact conversions, as branch-free expressions that the compiler vectorises.
 *
 * Host arithmetic is IEEE 754 binary32 and binary64, to nearest even, without flushing subnormals; all else is
 * built from it and from integers, so that every host gives the same bits. Included by kernels only (see
 * kernels.h on why everything is in an anonymous namespace). */
#ifndef EMU_MACHINE_NUMBER_H
#define EMU_MACHINE_NUMBER_H

#include <cstdint>

namespace emu::machine {
namespace {

template <class To, class From>
inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

inline float canonical(float x) { return x == x ? x : bits_as<float>(0x7fc00000u); }
inline double canonical(double x) { return x == x ? x : bits_as<double>(uint64_t{0x7ff8000000000000}); }

inline float widen(bf16 x) { return bits_as<float>(uint32_t{x.bits} << 16); }

inline float widen(f16 x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const uint32_t special = (magnitude << 13) + ((255u - 31u) << 23);
  const uint32_t subnormal = bits_as<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t out = magnitude >= 0x7c00u ? special : magnitude < 0x400u ? subnormal : normal;
  return bits_as<float>(out | (x.bits & 0x8000u) << 16);
}

template <class T>
struct Narrow;

template <>
struct Narrow<bf16> {
  static bf16 even(float x) {
    const uint32_t b = bits_as<uint32_t>(x);
    const uint32_t rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
    return {static_cast<uint16_t>(x == x ? rounded : 0x7fc0u)};
  }
  static bf16 trunc(float x) { return {static_cast<uint16_t>(x == x ? bits_as<uint32_t>(x) >> 16 : 0x7fc0u)}; }
};

template <>
struct Narrow<f16> {
  static f16 even(float x) {
    const uint32_t b = bits_as<uint32_t>(x), magnitude = b & 0x7fffffffu;
    /* Adding 0.5, whose last place is 2^-24, rounds a subnormal result in the right place. */
    const uint32_t subnormal = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t ordered = magnitude >= 0x477ff000u ? 0x7c00u : finite;
    return {static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : ordered | (b >> 16 & 0x8000u))};
  }
  static f16 trunc(float x) {
    const uint32_t b = bits_as<uint32_t>(x), magnitude = b & 0x7fffffffu;
    const bool small = magnitude < 0x38800000u;
    const float scaled = small ? bits_as<float>(magnitude) * 0x1p24f : 0.0f;
    const uint32_t subnormal = static_cast<uint32_t>(static_cast<int32_t>(scaled));
    const uint32_t normal = (magnitude - ((127u - 15u) << 23)) >> 13;
    const uint32_t finite = small ? subnormal : normal;
    const uint32_t ordered = magnitude >= 0x7f800000u ? 0x7c00u : magnitude >= 0x47800000u ? 0x7bffu : finite;
    return {static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : ordered | (b >> 16 & 0x8000u))};
  }
};

/* Toward zero. A rounded value beyond x is one step too far; from infinity the step leads to the largest finite. */
inline float trunc_to_f32(double x) {
  const float nearest = static_cast<float>(x);
  const bool beyond = __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
  return canonical(bits_as<float>(bits_as<uint32_t>(nearest) - (beyond ? 1u : 0u)));
}

/* Toward zero, with the last bit set if anything was lost: a second rounding, to a format at least two bits
 * narrower, is then the only one (von Neumann's round to odd). */
inline float odd_to_f32(double x) {
  const float cut = trunc_to_f32(x);
  const bool lost = static_cast<double>(cut) != x && x == x;
  return bits_as<float>(bits_as<uint32_t>(cut) | (lost ? 1u : 0u));
}

/* An i64 as an f64 that rounds to any narrower format as the i64 would: above 2^53, bits that don't fit are
 * folded into one sticky bit. */
inline double sticky_to_f64(int64_t x) {
  const uint64_t magnitude = x < 0 ? 0u - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  const uint64_t folded = (magnitude & ~uint64_t{0x7ff}) | ((magnitude & 0x7ff) != 0 ? 0x800u : 0u);
  const uint64_t fits = magnitude >> 53 != 0 ? folded : magnitude;
  const double out = static_cast<double>(fits);
  return x < 0 ? -out : out;
}

inline double trunc_to_f64(int64_t x) {
  const uint64_t magnitude = x < 0 ? 0u - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  const double nearest = static_cast<double>(magnitude); /* at most 2^63 */
  const bool beyond = static_cast<uint64_t>(nearest) > magnitude;
  const double out = bits_as<double>(bits_as<uint64_t>(nearest) - (beyond ? 1u : 0u));
  return x < 0 ? -out : out;
}

/* Toward zero, saturating, NaN gives 0. */
template <class To, class From>
inline To saturate(From x) {
  constexpr To kLeast = static_cast<To>(To(-1) < To(0) ? To(1) << (sizeof(To) * 8 - 1) : 0);
  constexpr To kMost = static_cast<To>(~kLeast);
  constexpr From kBelow = static_cast<From>(kLeast);                                                     /* exact */
  constexpr From kAbove = static_cast<From>(uint64_t{1} << (sizeof(To) * 8 - (To(-1) < To(0) ? 1 : 0))); /* exact */
  const bool inside = x > kBelow && x < kAbove;
  const To cut = static_cast<To>(inside ? x : From(0));
  return inside ? cut : x >= kAbove ? kMost : x <= kBelow ? kLeast : To(0);
}

}  // namespace
}  // namespace emu::machine

#endif
