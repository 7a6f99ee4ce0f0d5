/* cvt: every pair of types, in both rounding modes. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

/* Every float source is first an f32 or f64 with the same value. */
inline float value(float x) { return x; }
inline double value(double x) { return x; }
inline float value(f16 x) { return widen(x); }
inline float value(bf16 x) { return widen(x); }

struct ToEven {
  static float to(float*, float x) { return canonical(x); }
  static float to(float*, double x) { return canonical(static_cast<float>(x)); }
  static double to(double*, float x) { return canonical(static_cast<double>(x)); }
  static double to(double*, double x) { return canonical(x); }
  template <class T>
  static T to(T*, float x) {
    return Narrow<T>::even(x);
  }
  template <class T>
  static T to(T*, double x) {
    return Narrow<T>::even(odd_to_f32(x));
  }
  static double whole(double*, int64_t x) { return static_cast<double>(x); }
  template <class T>
  static T whole(T* tag, int64_t x) {
    return to(tag, sticky_to_f64(x));
  }
};

struct ToZero {
  static float to(float*, float x) { return canonical(x); }
  static float to(float*, double x) { return trunc_to_f32(x); }
  static double to(double*, float x) { return canonical(static_cast<double>(x)); }
  static double to(double*, double x) { return canonical(x); }
  template <class T>
  static T to(T*, float x) {
    return Narrow<T>::trunc(x);
  }
  template <class T>
  static T to(T*, double x) {
    return Narrow<T>::trunc(trunc_to_f32(x));
  }
  static double whole(double*, int64_t x) { return trunc_to_f64(x); }
  template <class T>
  static T whole(T* tag, int64_t x) {
    return to(tag, sticky_to_f64(x));
  }
};

template <class Mode, class D, class A>
struct FloatToFloat {
  static D of(A a) { return Mode::to(static_cast<D*>(nullptr), value(a)); }
};
template <class D, class A>
struct FloatToInteger {
  static D of(A a) { return saturate<D>(value(a)); }
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
struct IntegerToInteger {
  static D of(A a) { return static_cast<D>(a); }
};

template <class Mode, class A>
Elementwise from_float(Type to) {
  switch (to) {
    case Type::f32: return map1<FloatToFloat<Mode, float, A>, float, A>;
    case Type::f64: return map1<FloatToFloat<Mode, double, A>, double, A>;
    case Type::f16: return map1<FloatToFloat<Mode, f16, A>, f16, A>;
    case Type::bf16: return map1<FloatToFloat<Mode, bf16, A>, bf16, A>;
    case Type::i8: return map1<FloatToInteger<int8_t, A>, int8_t, A>;
    case Type::i16: return map1<FloatToInteger<int16_t, A>, int16_t, A>;
    case Type::i32: return map1<FloatToInteger<int32_t, A>, int32_t, A>;
    case Type::i64: return map1<FloatToInteger<int64_t, A>, int64_t, A>;
    case Type::u8: return map1<FloatToInteger<uint8_t, A>, uint8_t, A>;
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
    case Type::i8: return map1<IntegerToInteger<int8_t, A>, int8_t, A>;
    case Type::i16: return map1<IntegerToInteger<int16_t, A>, int16_t, A>;
    case Type::i32: return map1<IntegerToInteger<int32_t, A>, int32_t, A>;
    case Type::i64: return map1<IntegerToInteger<int64_t, A>, int64_t, A>;
    case Type::u8: return map1<IntegerToInteger<uint8_t, A>, uint8_t, A>;
    default: return nullptr;
  }
}

template <class Mode>
Elementwise between(Type to, Type from) {
  switch (from) {
    case Type::f32: return from_float<Mode, float>(to);
    case Type::f64: return from_float<Mode, double>(to);
    case Type::f16: return from_float<Mode, f16>(to);
    case Type::bf16: return from_float<Mode, bf16>(to);
    case Type::i8: return from_integer<Mode, int8_t>(to);
    case Type::i16: return from_integer<Mode, int16_t>(to);
    case Type::i32: return from_integer<Mode, int32_t>(to);
    case Type::i64: return from_integer<Mode, int64_t>(to);
    case Type::u8: return from_integer<Mode, uint8_t>(to);
    default: return nullptr;
  }
}

}  // namespace

namespace EMU_LEVEL {

Elementwise conversion(Type to, Type from, uint8_t mode) {
  return mode == kCvtEven ? between<ToEven>(to, from) : between<ToZero>(to, from);
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
