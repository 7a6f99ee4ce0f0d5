/* cvt, mcvt and cvtsr: every pair of types in each of their modes. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

/* Every float source is first an f32 or f64 with the same value. */
inline float value(float x) { return x; }
inline double value(double x) { return x; }
template <class T>
inline float value(T x) {
  return widen(x);
}

template <class T>
concept NarrowFloat = requires(T x) { x.bits; };

/* A mode is how a value comes to a type: `to` from a float, `whole` from an integer that may not fit f64. The
 * first argument only names the type. */
struct ToEven {
  static float to(float*, float x) { return canonical(x); }
  static float to(float*, double x) { return canonical(static_cast<float>(x)); }
  static double to(double*, float x) { return canonical(static_cast<double>(x)); }
  static double to(double*, double x) { return canonical(x); }
  template <NarrowFloat T>
  static T to(T*, float x) {
    return Narrow<T>::even(x);
  }
  template <NarrowFloat T>
  static T to(T*, double x) {
    return Narrow<T>::even(odd_to_f32(x));
  }
  template <class T, class A>
  static T to(T*, A x) {
    return saturate<T>(x);
  }
  static double whole(double*, int64_t x) { return static_cast<double>(x); }
  template <class T>
  static T whole(T* type, int64_t x) {
    return to(type, sticky_to_f64(x));
  }
};

struct ToZero {
  static float to(float*, float x) { return canonical(x); }
  static float to(float*, double x) { return trunc_to_f32(x); }
  static double to(double*, float x) { return canonical(static_cast<double>(x)); }
  static double to(double*, double x) { return canonical(x); }
  template <NarrowFloat T>
  static T to(T*, float x) {
    return Narrow<T>::trunc(x);
  }
  template <NarrowFloat T>
  static T to(T*, double x) {
    return Narrow<T>::trunc(trunc_to_f32(x));
  }
  template <class T, class A>
  static T to(T*, A x) {
    return saturate<T>(x);
  }
  static double whole(double*, int64_t x) { return trunc_to_f64(x); }
  template <class T>
  static T whole(T* type, int64_t x) {
    return to(type, sticky_to_f64(x));
  }
};

inline float nearest(float x) { return __builtin_rintf(x); }
inline double nearest(double x) { return __builtin_rint(x); }

template <class T>
concept Float = NarrowFloat<T> || requires(T x) { Format<T>::kLargest; };

struct ToEvenSaturated {
  template <Float T, class A>
  static T to(T* type, A x) {
    return saturated(ToEven::to(type, x), x);
  }
  template <class T, class A>
  static T to(T*, A x) {
    return saturate<T>(nearest(x));
  }
};
struct ToZeroSaturated {
  template <Float T, class A>
  static T to(T* type, A x) {
    return saturated(ToZero::to(type, x), x);
  }
  template <class T, class A>
  static T to(T*, A x) {
    return saturate<T>(x);
  }
};

template <class Mode, class D, class A>
struct FromFloat {
  static D of(A a) { return Mode::to(static_cast<D*>(nullptr), value(a)); }
};
/* An i64 may not fit f64; narrower integers do, exactly. */
template <class Mode, class D, class A>
struct IntegerToFloat {
  static D of(A a) { return Mode::to(static_cast<D*>(nullptr), static_cast<double>(a)); }
};
template <class Mode, class D>
struct IntegerToFloat<Mode, D, int64_t> {
  static D of(int64_t a) { return Mode::whole(static_cast<D*>(nullptr), a); }
};
template <class D, class A>
struct Wrap {
  static D of(A a) { return static_cast<D>(a); }
};
template <class D, class A>
struct Clamp {
  static D of(A a) {
    constexpr bool kSigned = D(-1) < D(0);
    constexpr int64_t kLeast = kSigned ? -(int64_t{1} << (sizeof(D) * 8 - 2)) * 2 : 0;
    constexpr int64_t kMost = kSigned ? ~kLeast : (int64_t{1} << (sizeof(D) * 8 % 64)) - 1;
    const int64_t x = a;
    return static_cast<D>(x < kLeast ? kLeast : x > kMost ? kMost : x);
  }
};

/* To an f32 or f64 that every mode and type rounds as the source would be. */
template <class A>
struct Exact {
  static float of(A a) { return widen(a); }
};
template <class A>
struct Sticky {
  static double of(A a) { return sticky_to_f64(a); }
};

/* Sources that no loop of their own is worth: through f32 or f64, some lanes at a time. */
template <class Mode, class D, class Wide, class First, class A>
void through(void* destination, const Source* sources, uint32_t lanes) {
  alignas(64) Wide wide[kStep];
  const Source middle{wide, false};
  Source from = sources[0];
  for (D* to = static_cast<D*>(destination); lanes != 0;) {
    const uint32_t some = lanes < kStep ? lanes : kStep;
    map1<First, Wide, A>(wide, &from, some);
    map1<FromFloat<Mode, D, Wide>, D, Wide>(to, &middle, some);
    from.data = static_cast<const A*>(from.data) + step(from);
    to += some;
    lanes -= some;
  }
}

template <class Mode, class Wide, class First, class A>
Elementwise through(Type to) {
  switch (to) {
    case Type::f32: return through<Mode, float, Wide, First, A>;
    case Type::f64: return through<Mode, double, Wide, First, A>;
    case Type::f16: return through<Mode, f16, Wide, First, A>;
    case Type::bf16: return through<Mode, bf16, Wide, First, A>;
    case Type::f8e4m3: return through<Mode, f8e4m3, Wide, First, A>;
    case Type::f8e5m2: return through<Mode, f8e5m2, Wide, First, A>;
    case Type::i8: return through<Mode, int8_t, Wide, First, A>;
    case Type::i16: return through<Mode, int16_t, Wide, First, A>;
    case Type::i32: return through<Mode, int32_t, Wide, First, A>;
    case Type::i64: return through<Mode, int64_t, Wide, First, A>;
    case Type::u8: return through<Mode, uint8_t, Wide, First, A>;
    default: return nullptr;
  }
}
template <class Mode, class A>
Elementwise through_f32(Type to) {
  return through<Mode, float, Exact<A>, A>(to);
}
template <class Mode, class A>
Elementwise through_f64(Type to) {
  return through<Mode, double, Sticky<A>, A>(to);
}

template <class Mode, class A>
Elementwise from_float(Type to) {
  switch (to) {
    case Type::f32: return map1<FromFloat<Mode, float, A>, float, A>;
    case Type::f64: return map1<FromFloat<Mode, double, A>, double, A>;
    case Type::f16: return map1<FromFloat<Mode, f16, A>, f16, A>;
    case Type::bf16: return map1<FromFloat<Mode, bf16, A>, bf16, A>;
    case Type::f8e4m3: return map1<FromFloat<Mode, f8e4m3, A>, f8e4m3, A>;
    case Type::f8e5m2: return map1<FromFloat<Mode, f8e5m2, A>, f8e5m2, A>;
    case Type::i8: return map1<FromFloat<Mode, int8_t, A>, int8_t, A>;
    case Type::i16: return map1<FromFloat<Mode, int16_t, A>, int16_t, A>;
    case Type::i32: return map1<FromFloat<Mode, int32_t, A>, int32_t, A>;
    case Type::i64: return map1<FromFloat<Mode, int64_t, A>, int64_t, A>;
    case Type::u8: return map1<FromFloat<Mode, uint8_t, A>, uint8_t, A>;
    default: return nullptr;
  }
}

template <template <class, class> class F, class A>
Elementwise to_integer(Type to) {
  switch (to) {
    case Type::i8: return map1<F<int8_t, A>, int8_t, A>;
    case Type::i16: return map1<F<int16_t, A>, int16_t, A>;
    case Type::i32: return map1<F<int32_t, A>, int32_t, A>;
    case Type::i64: return map1<F<int64_t, A>, int64_t, A>;
    case Type::u8: return map1<F<uint8_t, A>, uint8_t, A>;
    default: return nullptr;
  }
}

template <class Mode, class A>
Elementwise from_integer(Type to) {
  switch (to) {
    case Type::f32: return map1<IntegerToFloat<Mode, float, A>, float, A>;
    case Type::f64: return map1<IntegerToFloat<Mode, double, A>, double, A>;
    case Type::f16: return map1<IntegerToFloat<Mode, f16, A>, f16, A>;
    case Type::bf16: return map1<IntegerToFloat<Mode, bf16, A>, bf16, A>;
    case Type::f8e4m3:
    case Type::f8e5m2: return through_f64<Mode, A>(to);
    default: return to_integer<Wrap, A>(to);
  }
}

template <class Mode>
Elementwise plain(Type to, Type from) {
  switch (from) {
    case Type::f32: return from_float<Mode, float>(to);
    case Type::f64: return from_float<Mode, double>(to);
    case Type::f16: return from_float<Mode, f16>(to);
    case Type::bf16: return from_float<Mode, bf16>(to);
    case Type::f8e4m3: return through_f32<Mode, f8e4m3>(to);
    case Type::f8e5m2: return through_f32<Mode, f8e5m2>(to);
    case Type::i8: return from_integer<Mode, int8_t>(to);
    case Type::i16: return from_integer<Mode, int16_t>(to);
    case Type::i32: return from_integer<Mode, int32_t>(to);
    case Type::i64: return from_integer<Mode, int64_t>(to);
    case Type::u8: return from_integer<Mode, uint8_t>(to);
    default: return nullptr;
  }
}

/* No integer is beyond f32 or f64, so only what is narrower needs the saturating mode. */
template <class Mode, class Saturated, class A>
Elementwise saturated_from_integer(Type to) {
  switch (to) {
    case Type::f32:
    case Type::f64: return from_integer<Mode, A>(to);
    case Type::f16:
    case Type::bf16:
    case Type::f8e4m3:
    case Type::f8e5m2: return through_f64<Saturated, A>(to);
    default: return to_integer<Clamp, A>(to);
  }
}

template <class Mode, class Saturated>
Elementwise saturated(Type to, Type from) {
  switch (from) {
    case Type::f32: return from_float<Saturated, float>(to);
    case Type::f64: return from_float<Saturated, double>(to);
    case Type::f16: return through_f32<Saturated, f16>(to);
    case Type::bf16: return through_f32<Saturated, bf16>(to);
    case Type::f8e4m3: return through_f32<Saturated, f8e4m3>(to);
    case Type::f8e5m2: return through_f32<Saturated, f8e5m2>(to);
    case Type::i8: return saturated_from_integer<Mode, Saturated, int8_t>(to);
    case Type::i16: return saturated_from_integer<Mode, Saturated, int16_t>(to);
    case Type::i32: return saturated_from_integer<Mode, Saturated, int32_t>(to);
    case Type::i64: return saturated_from_integer<Mode, Saturated, int64_t>(to);
    case Type::u8: return saturated_from_integer<Mode, Saturated, uint8_t>(to);
    default: return nullptr;
  }
}

template <class D, class A, bool saturates>
struct Stochastic {
  static D of(A a, uint32_t random) {
    const D out = stochastic<D>(static_cast<double>(value(a)), random);
    return saturates ? saturated(out, value(a)) : out;
  }
};

template <class A, bool saturates>
Elementwise stochastic_from(Type to) {
  switch (to) {
    case Type::f32: return map2<Stochastic<float, A, saturates>, float, A, uint32_t>;
    case Type::f16: return map2<Stochastic<f16, A, saturates>, f16, A, uint32_t>;
    case Type::bf16: return map2<Stochastic<bf16, A, saturates>, bf16, A, uint32_t>;
    case Type::f8e4m3: return map2<Stochastic<f8e4m3, A, saturates>, f8e4m3, A, uint32_t>;
    case Type::f8e5m2: return map2<Stochastic<f8e5m2, A, saturates>, f8e5m2, A, uint32_t>;
    default: return nullptr;
  }
}

template <bool saturates>
Elementwise stochastic_between(Type to, Type from) {
  switch (from) {
    case Type::f32: return stochastic_from<float, saturates>(to);
    case Type::f64: return stochastic_from<double, saturates>(to);
    case Type::f16: return stochastic_from<f16, saturates>(to);
    case Type::bf16: return stochastic_from<bf16, saturates>(to);
    default: return nullptr;
  }
}

static_assert(kMcvtEven == kCvtEven && kMcvtTruncSat == kCvtTruncSat);

}  // namespace

namespace EMU_LEVEL {

Elementwise conversion(Op op, Type to, Type from, uint8_t mode) {
  if (op == Op::cvtsr)
    return mode == kCvtsrSat ? stochastic_between<true>(to, from) : stochastic_between<false>(to, from);
  if (op != Op::cvt && op != Op::mcvt) return nullptr;
  switch (mode) {
    case kCvtEven: return plain<ToEven>(to, from);
    case kCvtTrunc: return plain<ToZero>(to, from);
    case kCvtEvenSat: return saturated<ToEven, ToEvenSaturated>(to, from);
    case kCvtTruncSat: return saturated<ToZero, ToZeroSaturated>(to, from);
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
