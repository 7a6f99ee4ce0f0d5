/* exp, log and tanh: branch-free, so that they vectorise, and made of operations that every host rounds alike.
 *
 * f32 is computed in f64 and rounded once: the error is hardly above half a unit in the last place. f64 uses the
 * classical reductions with ln 2 in two parts and Taylor series long enough that the cut is far below the
 * rounding (remainders are beside the series). Bounds are in isa.toml and measured by the tests. */
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
    /* Beyond these e^a is below half the least subnormal, or above the largest f32. */
    const double x = clamp(static_cast<double>(a), -105.0, 90.0);
    const double n = nearest_integer(x * kLog2e);
    const double y = (1.0 + expm1_short(x - n * kLn2)) * power_of_two(n);
    return canonical(static_cast<float>(a == a ? y : static_cast<double>(a)));
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

Elementwise transcendental(Op op, Type type) {
  switch (op) {
    case Op::exp: return both<Exp>(type);
    case Op::log: return both<Log>(type);
    case Op::tanh: return both<Tanh>(type);
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
