/* exp, log, their relatives, tanh and pow: branch-free, so that they vectorise, and made of operations that every
 * host rounds alike.
 *
 * f32 is computed in f64 and rounded once: the error is hardly above half a unit in the last place; only exp, which
 * softmax waits for, is computed in f32. f64 uses the classical reductions with ln 2 in two parts and Taylor series
 * long enough that the cut is far below the rounding (remainders are beside the series). Bounds are in isa.toml and
 * measured by the tests. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

constexpr double kLog2e = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2High = 0x1.62e42feep-1; /* 32 bits: its product with an exponent is exact */
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
/* Adding this to |x| < 2^51 leaves x, rounded to an integer, in the low bits of the sum. */
constexpr double kToInteger = 0x1.8p52;

inline double nearest_integer(double x) { return (x + kToInteger) - kToInteger; }

/* 2^n for an integer n of -1022 .. 1023. */
inline double power_of_two(double n) { return bits_as<double>((bits_as<uint64_t>(n + (kToInteger + 1023.0)) << 52)); }

inline float rounded(float x) { return __builtin_rintf(x); }
inline double rounded(double x) { return __builtin_rint(x); }
inline bool negative(float x) { return bits_as<int32_t>(x) < 0; }
inline bool negative(double x) { return bits_as<int64_t>(x) < 0; }

inline double clamp(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

/* e^r - 1 = r + r^2 q(r) for |r| <= ln(2) / 2: q to the term r^11 / 13!, remainder below 2^-57 of e^r. */
inline double expm1_tail(double r) {
  double q = 1.0 / 6227020800.0;
  q = q * r + 1.0 / 479001600.0;
  q = q * r + 1.0 / 39916800.0;
  q = q * r + 1.0 / 3628800.0;
  q = q * r + 1.0 / 362880.0;
  q = q * r + 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  return r * r * q;
}

/* The same to r^8 / 8!, remainder below 2^-31: enough below f32. */
inline double expm1_short(double r) {
  double q = 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  return r + r * r * q;
}

struct Exp {
  static float of(float a) {
    constexpr float kHigh = 0x1.62e4p-1f; /* 15 bits of ln 2: its product with n is exact */
    constexpr float kLow = 0x1.7f7d1cp-20f;
    constexpr float kInteger = 0x1.8p23f; /* as kToInteger, for |a| < 2^22 */
    const float shifted = a * static_cast<float>(kLog2e) + kInteger;
    const float n = shifted - kInteger, r = (a - n * kHigh) - n * kLow;
    float q = 1.0f / 5040.0f; /* as expm1_tail, to r^7 / 7!: remainder below 2^-27 */
    q = q * r + 1.0f / 720.0f;
    q = q * r + 1.0f / 120.0f;
    q = q * r + 1.0f / 24.0f;
    q = q * r + 1.0f / 6.0f;
    q = q * r + 0.5f;
    /* In two steps, so that 2^n neither overflows nor is rounded twice where the result is subnormal. */
    const uint32_t power = bits_as<uint32_t>(shifted) - bits_as<uint32_t>(kInteger);
    const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(power) >> 1);
    const float scale = bits_as<float>((half + 127u) << 23), rest = bits_as<float>((power - half + 127u) << 23);
    const float y = (1.0f + (r + r * r * q)) * scale * rest;
    /* Beyond these e^a is above the largest f32, or below half the least subnormal, and y is anything. */
    const float bounded = a > 90.0f ? __builtin_inff() : a < -105.0f ? 0.0f : y;
    return a == a ? bounded : canonical(a);
  }
  static double of(double a) {
    const double x = clamp(a, -746.0, 710.0);
    const double n = nearest_integer(x * kLog2e);
    const double r = (x - n * kLn2High) - n * kLn2Low;
    /* In two steps, so that 2^n neither overflows nor is rounded twice where the result is subnormal. */
    const double half = nearest_integer(n * 0.5);
    const double y = (1.0 + (r + expm1_tail(r))) * power_of_two(half) * power_of_two(n - half);
    return a == a ? y : canonical(a);
  }
};

struct Exp2 {
  static float of(float a) {
    const double x = clamp(static_cast<double>(a), -151.0, 129.0);
    const double n = nearest_integer(x);
    const double y = (1.0 + expm1_short((x - n) * kLn2)) * power_of_two(n);
    return canonical(static_cast<float>(a == a ? y : static_cast<double>(a)));
  }
  static double of(double a) {
    const double x = clamp(a, -1076.0, 1025.0);
    const double n = nearest_integer(x), r = (x - n) * kLn2;
    const double half = nearest_integer(n * 0.5);
    const double y = (1.0 + (r + expm1_tail(r))) * power_of_two(half) * power_of_two(n - half);
    return a == a ? y : canonical(a);
  }
};

/* e^a - 1 = 2^n (e^r - 1) + (2^n - 1), which has no cancellation near zero. */
struct Expm1 {
  static float of(float a) {
    const double x = clamp(static_cast<double>(a), -30.0, 90.0);
    const double n = nearest_integer(x * kLog2e), scale = power_of_two(n);
    const float y = static_cast<float>(scale * expm1_short(x - n * kLn2) + (scale - 1.0));
    return a == a ? __builtin_copysignf(y, a) : canonical(a);
  }
  static double of(double a) {
    const double x = clamp(a, -40.0, 710.0);
    const double n = nearest_integer(x * kLog2e);
    const double high = x - n * kLn2High, low = n * kLn2Low;
    const double r = high - low, lost = (high - r) - low;
    const double half = power_of_two(n - 1.0); /* 2^1024 is out of range */
    const double y = 2.0 * (half * (r + (expm1_tail(r) + lost)) + (half - 0.5));
    const double ordered = __builtin_fabs(a) < 0x1p-54 ? a : y;
    return a == a ? __builtin_copysign(ordered, a) : canonical(a);
  }
};

/* a = 2^exponent * (1 + f), 1 + f of sqrt(1/2) .. sqrt(2), for a normal and positive. */
struct Split {
  double exponent, f;
};
inline Split split(double a) {
  /* Moving the bits by those of sqrt(1/2) makes the exponent field count from there. */
  constexpr uint64_t kOffset = uint64_t{0x3fe6a09e667f3bcd};
  const uint64_t moved = bits_as<uint64_t>(a) - kOffset;
  const uint64_t field = (moved >> 52) ^ 0x800u; /* twelve bits, two's complement, with 2048 added */
  const double exponent = bits_as<double>(field | uint64_t{0x4330000000000000}) - (0x1p52 + 2048.0);
  const double m = bits_as<double>(bits_as<uint64_t>(a) - (moved & (uint64_t{0xfff} << 52)));
  return {exponent, m - 1.0};
}

/* log(1 + f) = f - f^2/2 + s (f^2/2 + R) with s = f / (2 + f), R = sum of 2 s^(2k) / (2k + 1), k from 1. */
inline double log_series(double z) { /* z = s^2 <= 0.0295; to k = 11, remainder below 2^-60 */
  double q = 2.0 / 23.0;
  q = q * z + 2.0 / 21.0;
  q = q * z + 2.0 / 19.0;
  q = q * z + 2.0 / 17.0;
  q = q * z + 2.0 / 15.0;
  q = q * z + 2.0 / 13.0;
  q = q * z + 2.0 / 11.0;
  q = q * z + 2.0 / 9.0;
  q = q * z + 2.0 / 7.0;
  q = q * z + 2.0 / 5.0;
  q = q * z + 2.0 / 3.0;
  return z * q;
}
inline double log_series_short(double z) { /* to k = 5, remainder below 2^-33 */
  double q = 2.0 / 11.0;
  q = q * z + 2.0 / 9.0;
  q = q * z + 2.0 / 7.0;
  q = q * z + 2.0 / 5.0;
  q = q * z + 2.0 / 3.0;
  return z * q;
}

template <class T>
inline T log_special(T a, T otherwise) {
  const T infinity = static_cast<T>(__builtin_inf());
  const T ordered = a == infinity ? a
                    : a > T(0)    ? otherwise
                    : a == T(0)   ? -infinity
                                  : static_cast<T>(__builtin_nan(""));
  return canonical(ordered);
}

struct Log {
  static float of(float a) {
    const Split x = split(static_cast<double>(a));
    const double s = x.f / (2.0 + x.f), half = 0.5 * x.f * x.f;
    const double y = x.exponent * kLn2 + (x.f - (half - s * (half + log_series_short(s * s))));
    return log_special(a, static_cast<float>(y));
  }
  static double of(double a) {
    const bool subnormal = a < 0x1p-1022;
    const Split x = split(subnormal ? a * 0x1p54 : a);
    const double exponent = x.exponent - (subnormal ? 54.0 : 0.0);
    const double s = x.f / (2.0 + x.f), half = 0.5 * x.f * x.f;
    const double small = s * (half + log_series(s * s)) + exponent * kLn2Low;
    return log_special(a, exponent * kLn2High - ((half - small) - x.f));
  }
};

constexpr double kLog2eHigh = 0x1.71547p+0; /* 21 bits: its product with 32 bits is exact */
constexpr double kLog2eLow = 0x1.94ae0bf85ddf4p-22;

struct Log2 {
  static float of(float a) {
    const Split x = split(static_cast<double>(a));
    const double s = x.f / (2.0 + x.f), half = 0.5 * x.f * x.f;
    const double y = x.exponent + (x.f - (half - s * (half + log_series_short(s * s)))) * kLog2e;
    return log_special(a, static_cast<float>(y));
  }
  static double of(double a) {
    const bool subnormal = a < 0x1p-1022;
    const Split x = split(subnormal ? a * 0x1p54 : a);
    const double exponent = x.exponent - (subnormal ? 54.0 : 0.0);
    const double s = x.f / (2.0 + x.f), half = 0.5 * x.f * x.f;
    /* log(1 + f) = high + low, high cut to 32 bits; each part times log2 e, added from the smallest. */
    const double high = bits_as<double>(bits_as<uint64_t>(x.f - half) & ~uint64_t{0x1fffff});
    const double low = ((x.f - high) - half) + s * (half + log_series(s * s));
    const double large = high * kLog2eHigh, sum = exponent + large;
    const double small = ((exponent - sum) + large) + ((high + low) * kLog2eLow + low * kLog2eHigh);
    return log_special(a, sum + small);
  }
};

/* log(1 + a): near zero f is a itself; further out what 1 + a lost to rounding is added as its quotient. */
struct Log1p {
  static float of(float a) {
    const double x = static_cast<double>(a);
    const Split u = split(1.0 + x);
    const double f = u.exponent == 0.0 ? x : u.f;
    const double s = f / (2.0 + f), half = 0.5 * f * f;
    const double y = u.exponent * kLn2 + (f - (half - s * (half + log_series_short(s * s))));
    return special(a, static_cast<float>(y));
  }
  static double of(double a) {
    const double one_more = 1.0 + a;
    const Split u = split(one_more);
    const bool near = u.exponent == 0.0;
    const double lost = a > 1.0 ? 1.0 - (one_more - a) : a - (one_more - 1.0); /* the differences are exact */
    const double f = near ? a : u.f, correction = near ? 0.0 : lost / one_more;
    const double s = f / (2.0 + f), half = 0.5 * f * f;
    const double small = s * (half + log_series(s * s)) + (u.exponent * kLn2Low + correction);
    return special(a, u.exponent * kLn2High - ((half - small) - f));
  }

 private:
  template <class T>
  static T special(T a, T otherwise) {
    return a == T(0) ? a : log_special(a + T(1), otherwise);
  }
};

/* A number as the sum of two, for what needs more digits than an f64. */
struct Pair {
  double high, low;
};
inline Pair sum(double a, double b) { /* |a| >= |b| or a = 0 */
  const double high = a + b;
  return {high, b - (high - a)};
}
inline Pair product(double a, double b) {
  const double high = a * b;
  return {high, __builtin_fma(a, b, -high)};
}
inline Pair product(Pair a, Pair b) {
  const Pair p = product(a.high, b.high);
  return {p.high, p.low + (a.high * b.low + a.low * b.high)};
}

constexpr Pair kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
constexpr Pair kTwiceLog2e = {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55};
constexpr Pair kLn2Pair = {kLn2, 0x1.abc9e3b39803fp-56};

/* log2 of a finite x > 0, relative error below 2^-64: twice log2 e times s + s z / 3 + s z^2 (1 / 5 + z / 7 + ..) with
 * s = f / (2 + f), z = s^2, all but the last term as pairs. */
inline Pair log2_pair(double x) {
  const bool subnormal = x < 0x1p-1022;
  const Split u = split(subnormal ? x * 0x1p54 : x);
  const double exponent = u.exponent - (subnormal ? 54.0 : 0.0);
  const Pair divisor = sum(2.0, u.f);
  const double quotient = u.f / divisor.high;
  const double rest = __builtin_fma(-quotient, divisor.high, u.f) - quotient * divisor.low;
  const Pair s = {quotient, rest / divisor.high}, z = product(s, s);
  double q = 1.0 / 25.0; /* to z^12 / 25, remainder below 2^-65 */
  q = q * z.high + 1.0 / 23.0;
  q = q * z.high + 1.0 / 21.0;
  q = q * z.high + 1.0 / 19.0;
  q = q * z.high + 1.0 / 17.0;
  q = q * z.high + 1.0 / 15.0;
  q = q * z.high + 1.0 / 13.0;
  q = q * z.high + 1.0 / 11.0;
  q = q * z.high + 1.0 / 9.0;
  q = q * z.high + 1.0 / 7.0;
  q = q * z.high + 1.0 / 5.0;
  const Pair first = product(z, kThird), all = sum(first.high, z.high * z.high * q);
  const Pair more = product(s, {all.high, all.low + first.low}), near = sum(s.high, more.high);
  const Pair fraction = product({near.high, near.low + (more.low + s.low)}, kTwiceLog2e);
  const Pair whole = sum(exponent, fraction.high);
  return {whole.high, whole.low + fraction.low};
}

/* The cases that IEEE 754 lists, and the sign; else the magnitude. */
template <class T>
inline T power_special(T a, T b, T magnitude) {
  const T infinity = static_cast<T>(__builtin_inf()), size = a < T(0) ? -a : a;
  /* Without short circuits, which would be branches. */
  const bool whole = rounded(b) == b, odd = whole & (rounded(b * T(0.5)) != b * T(0.5));
  const bool one = (a == T(1)) | (b == T(0)) | ((size == T(1)) & ((b == infinity) | (b == -infinity)));
  const bool none = (a != a) | (b != b) | ((a < T(0)) & (size != infinity) & !whole);
  const T other = odd & negative(a) ? -magnitude : magnitude;
  return one ? T(1) : none ? canonical(static_cast<T>(__builtin_nan(""))) : other;
}

/* 2^(b log2 |a|): an f32 doesn't see the error of f64; an f64 needs pairs. */
struct Pow {
  static float of(float a, float b) {
    const double x = __builtin_fabs(static_cast<double>(a));
    const Split u = split(x);
    const double s = u.f / (2.0 + u.f), half = 0.5 * u.f * u.f;
    const double finite = u.exponent + (u.f - (half - s * (half + log_series(s * s)))) * kLog2e;
    const double power = clamp(static_cast<double>(b) * special_log2(x, finite), -151.0, 129.0);
    const double n = nearest_integer(power);
    const double y = (1.0 + expm1_short((power - n) * kLn2)) * power_of_two(n);
    return power_special(a, b, static_cast<float>(y));
  }
  static double of(double a, double b) {
    const double x = __builtin_fabs(a);
    const Pair log2 = log2_pair(x);
    const double high = b * special_log2(x, log2.high), power = clamp(high, -1076.0, 1025.0);
    const double lost = high == power ? __builtin_fma(b, log2.high, -high) + b * log2.low : 0.0;
    const double n = nearest_integer(power);
    const Pair fraction = sum(power - n, lost), r = product(fraction, kLn2Pair);
    const double half = nearest_integer(n * 0.5);
    const double y = (1.0 + (r.high + (expm1_tail(r.high) + r.low))) * power_of_two(half) * power_of_two(n - half);
    return power_special(a, b, y);
  }

 private:
  static double special_log2(double x, double finite) {
    return x == 0.0 ? -__builtin_inf() : x == __builtin_inf() ? x : finite;
  }
};

/* tanh(a) = E / (E + 2) with E = e^(2|a|) - 1, which has no cancellation near zero. */
struct Tanh {
  static float of(float a) {
    const double x = 2.0 * clamp(__builtin_fabs(static_cast<double>(a)), 0.0, 20.0);
    const double n = nearest_integer(x * kLog2e);
    const double scale = power_of_two(n);
    const double e = scale * expm1_short(x - n * kLn2) + (scale - 1.0);
    const float y = static_cast<float>(e / (e + 2.0));
    return a == a ? __builtin_copysignf(y, a) : canonical(a);
  }
  static double of(double a) {
    const double x = 2.0 * clamp(__builtin_fabs(a), 0.0, 22.0);
    const double n = nearest_integer(x * kLog2e);
    const double high = x - n * kLn2High, low = n * kLn2Low;
    const double r = high - low, lost = (high - r) - low;
    const double scale = power_of_two(n);
    const double e = scale * (r + (expm1_tail(r) + lost)) + (scale - 1.0);
    return a == a ? __builtin_copysign(e / (e + 2.0), a) : canonical(a);
  }
};

template <class F>
Elementwise both(Type type) {
  return type == Type::f32 ? map1<F, float, float> : type == Type::f64 ? map1<F, double, double> : nullptr;
}

}  // namespace

namespace EMU_LEVEL {

Elementwise exponential(Op op, Type type, Type, uint8_t) {
  switch (op) {
    case Op::exp: return both<Exp>(type);
    case Op::exp2: return both<Exp2>(type);
    case Op::expm1: return both<Expm1>(type);
    case Op::log: return both<Log>(type);
    case Op::log2: return both<Log2>(type);
    case Op::log1p: return both<Log1p>(type);
    case Op::tanh: return both<Tanh>(type);
    case Op::pow:
      return type == Type::f32 ? map2<Pow, float, float, float> : map2<Pow, double, double, double>;
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
