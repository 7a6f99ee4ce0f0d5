/* sin and cos for every finite argument.
 *
 * a = n pi / 2 + r with |r| <= pi / 4 and r in two parts. Below 2^20, n and r come from pi / 2 in four parts
 * (Cody and Waite); above, from as many bits of 2 / pi as the exponent asks for (Payne and Hanek). The first way
 * vectorises; lanes that need the second are done again one by one. f32 is computed in f64. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

constexpr double kLarge = 0x1p20;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
/* pi / 2: three parts of 33 bits, whose products with n are exact, and the rest. */
constexpr double kPart1 = 0x1.921fb544p+0, kPart2 = 0x1.0b4611a6p-34, kPart3 = 0x1.3198a2ep-69,
                 kPart4 = 0x1.b839a252049c1p-104;
constexpr double kToInteger = 0x1.8p52; /* see exponential.cpp */

struct Reduced {
  double high, low; /* r */
  uint32_t quarter; /* n mod 4 */
};

/* a - b and what it lost. */
struct Difference {
  double value, lost;
};
inline Difference subtract(double a, double b) {
  const double d = a - b, minus_b = d - a;
  return {d, (a - (d - minus_b)) - (b + minus_b)};
}

inline Reduced reduce_small(double a) {
  const double shifted = a * kTwoOverPi + kToInteger, n = shifted - kToInteger;
  const Difference second = subtract(a - n * kPart1, n * kPart2);
  const Difference third = subtract(second.value, n * kPart3);
  const double low = (second.lost + third.lost) - n * kPart4;
  const double high = third.value + low;
  return {high, (third.value - high) + low, static_cast<uint32_t>(bits_as<uint64_t>(shifted)) & 3u};
}

/* Binary digits of 2 / pi, after 64 zeros; from mpmath. */
constexpr uint64_t kDigits[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

inline uint64_t digits(uint32_t from) {
  const uint32_t word = from / 64, shift = from % 64;
  return shift == 0 ? kDigits[word] : kDigits[word] << shift | kDigits[word + 1] >> (64 - shift);
}

/* For finite |a| >= kLarge. */
inline Reduced reduce_large(double a) {
  __extension__ typedef unsigned __int128 uint128;
  const uint64_t bits = bits_as<uint64_t>(a) & ~(uint64_t{1} << 63);
  const uint64_t whole = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  /* |a| = whole * 2^exponent. Digits of 2 / pi before this one make multiples of 4. */
  const int exponent = static_cast<int>(bits >> 52) - 1075;
  const uint32_t from = static_cast<uint32_t>(exponent + 62);
  /* The low 192 bits of whole * the next 192 digits: n mod 4, then the fraction; half a quarter is added to round. */
  const uint128 low = uint128{digits(from + 128)} * whole;
  const uint128 middle = uint128{digits(from + 64)} * whole + static_cast<uint64_t>(low >> 64);
  const uint64_t top = digits(from) * whole + static_cast<uint64_t>(middle >> 64);
  const uint64_t rounded = top + (uint64_t{1} << 61);
  const uint32_t quarter = static_cast<uint32_t>(rounded >> 62);
  /* The fraction of -1/2 .. 1/2 in units of 2^-126: a sign and two words. */
  uint128 fraction = (uint128{top - (uint64_t{quarter} << 62)} << 64 | static_cast<uint64_t>(middle));
  const bool negative = static_cast<int64_t>(fraction >> 127 & 1u) != 0;
  uint64_t rest = static_cast<uint64_t>(low);
  if (negative) {
    rest = 0 - rest;
    fraction = ~fraction + (rest == 0 ? 1 : 0);
  }
  /* The first 53 bits that aren't zero, and the 53 after them. */
  const uint64_t first = static_cast<uint64_t>(fraction >> 64);
  const int zeros = first != 0 ? __builtin_clzll(first) : 64 + __builtin_clzll(static_cast<uint64_t>(fraction) | 1u);
  const uint128 moved = fraction << zeros | (uint128{rest} << 64) >> (128 - zeros);
  const double scale = bits_as<double>(static_cast<uint64_t>(1023 - zeros) << 52);
  const double high = static_cast<double>(static_cast<uint64_t>(moved >> 75)) * 0x1p-51 * scale;
  const double low_part =
      static_cast<double>(static_cast<uint64_t>(moved >> 22) & ((uint64_t{1} << 53) - 1)) * 0x1p-104 * scale;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
  const double product = high * kHalfPiHigh;
  const double lost = __builtin_fma(high, kHalfPiHigh, -product) + (high * kHalfPiLow + low_part * kHalfPiHigh);
  const double r = product + lost, r_low = (product - r) + lost;
  const bool flip = negative != (a < 0.0);
  return {flip ? -r : r, flip ? -r_low : r_low, a < 0.0 ? (0u - quarter) & 3u : quarter};
}

/* Taylor series for |r| <= pi / 4: to r^17 / 17!, remainder below 2^-60 of sin r; to r^18 / 18!. */
inline double sine(double r, double low) {
  const double z = r * r;
  double q = 1.0 / 355687428096000.0;
  q = q * z - 1.0 / 1307674368000.0;
  q = q * z + 1.0 / 6227020800.0;
  q = q * z - 1.0 / 39916800.0;
  q = q * z + 1.0 / 362880.0;
  q = q * z - 1.0 / 5040.0;
  q = q * z + 1.0 / 120.0;
  q = q * z - 1.0 / 6.0;
  return r + (r * z * q + low * (1.0 - 0.5 * z));
}
inline double cosine(double r, double low) {
  const double z = r * r, half = 0.5 * z;
  double q = -1.0 / 6402373705728000.0;
  q = q * z + 1.0 / 20922789888000.0;
  q = q * z - 1.0 / 87178291200.0;
  q = q * z + 1.0 / 479001600.0;
  q = q * z - 1.0 / 3628800.0;
  q = q * z + 1.0 / 40320.0;
  q = q * z - 1.0 / 720.0;
  q = q * z + 1.0 / 24.0;
  const double one = 1.0 - half;
  return one + (((1.0 - one) - half) + (z * z * q - r * low));
}

/* sin a for `ahead` 0, cos a for 1. */
template <uint32_t ahead>
inline double wave(const Reduced& x) {
  const uint32_t quarter = x.quarter + ahead;
  const double y = (quarter & 1u) != 0 ? cosine(x.high, x.low) : sine(x.high, x.low);
  return (quarter & 2u) != 0 ? -y : y;
}

template <uint32_t ahead>
struct Wave {
  template <class T>
  static T of(T a) {
    const T y = static_cast<T>(wave<ahead>(reduce_small(static_cast<double>(a))));
    return ahead == 0 && a == T(0) ? a : y;
  }
  template <class T>
  static T of_large(T a) {
    if (!(__builtin_fabs(static_cast<double>(a)) < __builtin_inf()))
      return canonical(a - a); /* infinity or NaN */
    return static_cast<T>(wave<ahead>(reduce_large(static_cast<double>(a))));
  }
};

template <class F, class T>
void periodic(void* destination, const Source* sources, uint32_t lanes) {
  T* d = static_cast<T*>(destination);
  T a[kStep]; /* a copy, as the destination may be the source */
  Source part = {a, false};
  for (const T* from = static_cast<const T*>(sources[0].data); lanes != 0; from += step(sources[0])) {
    const uint32_t some = lanes < kStep ? lanes : kStep;
    __builtin_memcpy(a, from, some * sizeof(T));
    map1<F, T, T>(d, &part, some);
    for (uint32_t i = 0; i < some; ++i)
      if (!(__builtin_fabs(static_cast<double>(a[i])) < kLarge)) d[i] = F::of_large(a[i]);
    d += some;
    lanes -= some;
  }
}

template <class F>
Elementwise both(Type type) {
  return type == Type::f32 ? periodic<F, float> : type == Type::f64 ? periodic<F, double> : nullptr;
}

}  // namespace

namespace EMU_LEVEL {

Elementwise trigonometric(Op op, Type type, Type, uint8_t) {
  switch (op) {
    case Op::sin: return both<Wave<0>>(type);
    case Op::cos: return both<Wave<1>>(type);
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
