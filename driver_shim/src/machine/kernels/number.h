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

struct f8e4m3 {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
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

inline float widen(f8e5m2 x) { return widen(f16{static_cast<uint16_t>(x.bits << 8)}); }

inline float widen(f8e4m3 x) {
  const uint32_t magnitude = x.bits & 0x7fu;
  const uint32_t normal = (magnitude << 20) + ((127u - 7u) << 23);
  const uint32_t subnormal = bits_as<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
  const uint32_t out = magnitude == 0x7fu ? 0x7fc00000u : magnitude < 8u ? subnormal : normal;
  return bits_as<float>(out | (x.bits & 0x80u) << 24);
}

/* A binary format: magnitudes ascend with their bits, `over` follows the largest finite one. */
template <class T>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr unsigned kMantissa = 23;
  static constexpr int kLeastExponent = -126; /* of a normal number */
  static constexpr Bits kLargest = 0x7f7fffffu, kOver = 0x7f800000u, kNan = 0x7fc00000u;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr unsigned kMantissa = 52;
  static constexpr int kLeastExponent = -1022;
  static constexpr Bits kLargest = 0x7fefffffffffffffu, kOver = 0x7ff0000000000000u, kNan = 0x7ff8000000000000u;
};
template <>
struct Format<f16> {
  using Bits = uint16_t;
  static constexpr unsigned kMantissa = 10;
  static constexpr int kLeastExponent = -14;
  static constexpr Bits kLargest = 0x7bffu, kOver = 0x7c00u, kNan = 0x7e00u;
};
template <>
struct Format<bf16> {
  using Bits = uint16_t;
  static constexpr unsigned kMantissa = 7;
  static constexpr int kLeastExponent = -126;
  static constexpr Bits kLargest = 0x7f7fu, kOver = 0x7f80u, kNan = 0x7fc0u;
};
template <>
struct Format<f8e4m3> {
  using Bits = uint8_t;
  static constexpr unsigned kMantissa = 3;
  static constexpr int kLeastExponent = -6;
  static constexpr Bits kLargest = 0x7eu, kOver = 0x7fu, kNan = 0x7fu;
};
template <>
struct Format<f8e5m2> {
  using Bits = uint8_t;
  static constexpr unsigned kMantissa = 2;
  static constexpr int kLeastExponent = -14;
  static constexpr Bits kLargest = 0x7bu, kOver = 0x7cu, kNan = 0x7eu;
};
template <class T>
constexpr typename Format<T>::Bits kSign = static_cast<typename Format<T>::Bits>(1u) << (sizeof(T) * 8 - 1);

/* `rounded`, made of x, with the largest finite value for what is beyond it. */
template <class T, class A>
inline T saturated(T rounded, A x) {
  using F = Format<T>;
  const typename F::Bits bits = bits_as<typename F::Bits>(rounded);
  const bool beyond = x == x && static_cast<typename F::Bits>(bits & ~kSign<T>) > F::kLargest;
  const typename F::Bits most = static_cast<typename F::Bits>(F::kLargest | (x < A(0) ? kSign<T> : 0));
  return bits_as<T>(beyond ? most : bits);
}

/* x to T, away from zero if the part of the last place that is cut off, in units of 2^-32 and rounded down, and
 * `random` are together a whole one, else toward zero. Works on the bits of an f64, so that it is exact. */
template <class T>
inline T stochastic(double x, uint32_t random) {
  using F = Format<T>;
  constexpr uint64_t kHidden = uint64_t{1} << 52;
  const uint64_t magnitude = bits_as<uint64_t>(x) & ~(uint64_t{1} << 63);
  const int64_t field = static_cast<int64_t>(magnitude >> 52);
  const uint64_t whole = (magnitude & (kHidden - 1)) | (field != 0 ? kHidden : 0);
  const int64_t exponent = (field != 0 ? field : 1) - 1023; /* x = whole * 2^(exponent - 52) */
  const int64_t above = exponent - F::kLeastExponent;       /* below zero: the result is subnormal or next to it */
  const int64_t cut = 52 - int64_t{F::kMantissa} - (above < 0 ? above : 0); /* bits that are cut off */
  const uint64_t kept = cut < 64 ? whole >> (cut & 63) : 0;
  const uint64_t lost = cut < 64 ? whole - (kept << (cut & 63)) : whole;
  const int64_t right = cut - 32; /* to 2^-32 units */
  const uint64_t fraction = right >= 64 ? 0 : right >= 0 ? lost >> (right & 63) : lost << (-right & 63);
  const uint64_t up = (fraction + random) >> 32;
  const uint64_t out = (static_cast<uint64_t>(above > 0 ? above : 0) << F::kMantissa) + kept + up;
  const uint64_t ordered = magnitude > 0x7ff0000000000000u ? F::kNan : out > F::kLargest ? F::kOver : out;
  const bool is_nan = ordered > F::kOver || (F::kOver == F::kNan && ordered == F::kNan);
  const uint64_t sign = bits_as<uint64_t>(x) >> 63 << (sizeof(T) * 8 - 1);
  return bits_as<T>(static_cast<typename F::Bits>(ordered | (is_nan ? 0 : sign)));
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

template <>
struct Narrow<f8e5m2> {
  /* Through f16 with a sticky last bit, which has the same exponents. */
  static f8e5m2 even(float x) {
    const f16 cut = Narrow<f16>::trunc(x);
    const uint32_t b = cut.bits | (widen(cut) != x ? 1u : 0u), magnitude = b & 0x7fffu;
    const uint32_t rounded = (magnitude + 0x7fu + (magnitude >> 8 & 1u)) >> 8;
    return {static_cast<uint8_t>(x == x ? rounded | (b >> 8 & 0x80u) : 0x7eu)};
  }
  static f8e5m2 trunc(float x) { return {static_cast<uint8_t>(Narrow<f16>::trunc(x).bits >> 8)}; }
};

template <>
struct Narrow<f8e4m3> {
  static f8e4m3 even(float x) {
    const uint32_t b = bits_as<uint32_t>(x), magnitude = b & 0x7fffffffu;
    /* The last place of 2^14 is 2^-9, that of a subnormal result. */
    const uint32_t subnormal = bits_as<uint32_t>(bits_as<float>(magnitude) + 0x1p14f) - 0x46800000u;
    const uint32_t normal = (magnitude - ((127u - 7u) << 23) + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    const uint32_t finite = magnitude < 0x3c800000u ? subnormal : normal;
    return {static_cast<uint8_t>(finite > 0x7eu ? 0x7fu : finite | (b >> 24 & 0x80u))};
  }
  static f8e4m3 trunc(float x) {
    const uint32_t b = bits_as<uint32_t>(x), magnitude = b & 0x7fffffffu;
    const bool small = magnitude < 0x3c800000u;
    const float scaled = small ? bits_as<float>(magnitude) * 0x1p9f : 0.0f;
    const uint32_t subnormal = static_cast<uint32_t>(static_cast<int32_t>(scaled));
    const uint32_t normal = (magnitude - ((127u - 7u) << 23)) >> 20;
    const uint32_t finite = small ? subnormal : normal < 0x7eu ? normal : 0x7eu;
    return {static_cast<uint8_t>(magnitude >= 0x7f800000u ? 0x7fu : finite | (b >> 24 & 0x80u))};
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
