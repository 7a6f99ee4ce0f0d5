/* Arithmetic, comparison, selection and moves. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

/* Widest unsigned arithmetic: wraps, and cutting it to T gives what T's own wrapping arithmetic would. */
template <class T>
inline uint64_t bits64(T x) {
  return static_cast<uint64_t>(x);
}

inline bool negative(float x) { return bits_as<int32_t>(x) < 0; }
inline bool negative(double x) { return bits_as<int64_t>(x) < 0; }

inline float minimum(float a, float b) { return a < b ? a : b < a ? b : negative(a) ? a : b; }
inline double minimum(double a, double b) { return a < b ? a : b < a ? b : negative(a) ? a : b; }
inline float maximum(float a, float b) { return a > b ? a : b > a ? b : negative(a) ? b : a; }
inline double maximum(double a, double b) { return a > b ? a : b > a ? b : negative(a) ? b : a; }

template <class T>
inline T either_nan(T a, T b, T otherwise) {
  return a == a && b == b ? otherwise : canonical(a + b);
}

/* One struct an operation; `of` for floats, and for integers where the operation has them. */
struct Add {
  static float of(float a, float b) { return canonical(a + b); }
  static double of(double a, double b) { return canonical(a + b); }
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(bits64(a) + bits64(b));
  }
};
struct Sub {
  static float of(float a, float b) { return canonical(a - b); }
  static double of(double a, double b) { return canonical(a - b); }
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(bits64(a) - bits64(b));
  }
};
struct Mul {
  static float of(float a, float b) { return canonical(a * b); }
  static double of(double a, double b) { return canonical(a * b); }
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(bits64(a) * bits64(b));
  }
};
template <class T>
inline bool wraps(T a, T b) { /* the most negative value by -1 */
  return T(-1) < T(0) && b == T(-1) && a == static_cast<T>(uint64_t{1} << (sizeof(T) * 8 - 1));
}
struct Div {
  static float of(float a, float b) { return canonical(a / b); }
  static double of(double a, double b) { return canonical(a / b); }
  template <class T>
  static T of(T a, T b) {
    return b == T(0) ? static_cast<T>(-1) : wraps(a, b) ? a : static_cast<T>(a / b);
  }
};
struct Rem {
  static float of(float a, float b) { return canonical(__builtin_fmodf(a, b)); }
  static double of(double a, double b) { return canonical(__builtin_fmod(a, b)); }
  template <class T>
  static T of(T a, T b) {
    return b == T(0) ? a : wraps(a, b) ? T(0) : static_cast<T>(a % b);
  }
};
struct Fma {
  static float of(float a, float b, float c) { return canonical(__builtin_fmaf(a, b, c)); }
  static double of(double a, double b, double c) { return canonical(__builtin_fma(a, b, c)); }
};
struct Min {
  static float of(float a, float b) { return either_nan(a, b, minimum(a, b)); }
  static double of(double a, double b) { return either_nan(a, b, minimum(a, b)); }
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  static float of(float a, float b) { return either_nan(a, b, maximum(a, b)); }
  static double of(double a, double b) { return either_nan(a, b, maximum(a, b)); }
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Neg {
  static float of(float a) { return -a; }
  static double of(double a) { return -a; }
  static f16 of(f16 a) { return {static_cast<uint16_t>(a.bits ^ 0x8000u)}; }
  static bf16 of(bf16 a) { return {static_cast<uint16_t>(a.bits ^ 0x8000u)}; }
  template <class T>
  static T of(T a) {
    return static_cast<T>(0 - bits64(a));
  }
};
struct Abs {
  static float of(float a) { return __builtin_fabsf(a); }
  static double of(double a) { return __builtin_fabs(a); }
  static f16 of(f16 a) { return {static_cast<uint16_t>(a.bits & 0x7fffu)}; }
  static bf16 of(bf16 a) { return {static_cast<uint16_t>(a.bits & 0x7fffu)}; }
  template <class T>
  static T of(T a) {
    return a < T(0) ? static_cast<T>(0 - bits64(a)) : a;
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
template <class T>
inline bool in_range(T count) {
  return count >= T(0) && bits64(count) < sizeof(T) * 8;
}
struct Shl {
  template <class T>
  static T of(T a, T b) {
    return in_range(b) ? static_cast<T>(bits64(a) << (bits64(b) & 63)) : T(0);
  }
};
struct Shr {
  template <class T>
  static T of(T a, T b) {
    const T count = in_range(b) ? b : T(0);
    const T sign = a < T(0) ? static_cast<T>(-1) : T(0);
    return in_range(b) ? static_cast<T>(a >> count) : sign;
  }
};
struct Sqrt {
  static float of(float a) { return canonical(__builtin_sqrtf(a)); }
  static double of(double a) { return canonical(__builtin_sqrt(a)); }
};
struct Floor {
  static float of(float a) { return canonical(__builtin_floorf(a)); }
  static double of(double a) { return canonical(__builtin_floor(a)); }
};
struct Ceil {
  static float of(float a) { return canonical(__builtin_ceilf(a)); }
  static double of(double a) { return canonical(__builtin_ceil(a)); }
};
struct Trunc {
  static float of(float a) { return canonical(__builtin_truncf(a)); }
  static double of(double a) { return canonical(__builtin_trunc(a)); }
};
struct Even {
  static float of(float a) { return canonical(__builtin_rintf(a)); }
  static double of(double a) { return canonical(__builtin_rint(a)); }
};
struct Copy {
  template <class T>
  static T of(T a) {
    return a;
  }
};
struct Select {
  template <class T>
  static T of(uint8_t p, T a, T b) {
    return p != 0 ? a : b;
  }
};
struct PredicateAnd {
  static uint8_t of(uint8_t a, uint8_t b) { return a & b; }
};
struct PredicateOr {
  static uint8_t of(uint8_t a, uint8_t b) { return a | b; }
};
struct PredicateNot {
  static uint8_t of(uint8_t a) { return a ^ 1u; }
};
#define EMU_COMPARISON(name, relation) \
  struct name {                        \
    template <class T>                 \
    static uint8_t of(T a, T b) {      \
      return a relation b ? 1 : 0;     \
    }                                  \
  };
EMU_COMPARISON(Eq, ==)
EMU_COMPARISON(Ne, !=)
EMU_COMPARISON(Lt, <)
EMU_COMPARISON(Le, <=)
EMU_COMPARISON(Gt, >)
EMU_COMPARISON(Ge, >=)
#undef EMU_COMPARISON

/* F on 16-bit floats: in f32, rounded once. */
template <class F, class T>
struct Narrowed {
  static T of(T a, T b) { return Narrow<T>::even(F::of(widen(a), widen(b))); }
};
template <class F, class T>
struct Widened {
  static uint8_t of(T a, T b) { return F::of(widen(a), widen(b)); }
};

template <class F>
Elementwise wide_binary(Type type) {
  switch (type) {
    case Type::f32: return map2<F, float, float, float>;
    case Type::f64: return map2<F, double, double, double>;
    default: return nullptr;
  }
}

template <class F>
Elementwise integer_binary(Type type) {
  switch (type) {
    case Type::i8: return map2<F, int8_t, int8_t, int8_t>;
    case Type::i16: return map2<F, int16_t, int16_t, int16_t>;
    case Type::i32: return map2<F, int32_t, int32_t, int32_t>;
    case Type::i64: return map2<F, int64_t, int64_t, int64_t>;
    case Type::u8: return map2<F, uint8_t, uint8_t, uint8_t>;
    default: return nullptr;
  }
}

template <class F>
Elementwise binary(Type type) {
  switch (type) {
    case Type::f16: return map2<Narrowed<F, f16>, f16, f16, f16>;
    case Type::bf16: return map2<Narrowed<F, bf16>, bf16, bf16, bf16>;
    case Type::f32:
    case Type::f64: return wide_binary<F>(type);
    default: return integer_binary<F>(type);
  }
}

template <class F>
Elementwise wide_unary(Type type) {
  switch (type) {
    case Type::f32: return map1<F, float, float>;
    case Type::f64: return map1<F, double, double>;
    default: return nullptr;
  }
}

template <class F>
Elementwise unary(Type type) {
  switch (type) {
    case Type::f16: return map1<F, f16, f16>;
    case Type::bf16: return map1<F, bf16, bf16>;
    case Type::i8: return map1<F, int8_t, int8_t>;
    case Type::i16: return map1<F, int16_t, int16_t>;
    case Type::i32: return map1<F, int32_t, int32_t>;
    case Type::i64: return map1<F, int64_t, int64_t>;
    case Type::u8: return map1<F, uint8_t, uint8_t>;
    default: return wide_unary<F>(type);
  }
}

template <class F>
Elementwise comparison(Type type) {
  switch (type) {
    case Type::f32: return map2<F, uint8_t, float, float>;
    case Type::f64: return map2<F, uint8_t, double, double>;
    case Type::f16: return map2<Widened<F, f16>, uint8_t, f16, f16>;
    case Type::bf16: return map2<Widened<F, bf16>, uint8_t, bf16, bf16>;
    case Type::i8: return map2<F, uint8_t, int8_t, int8_t>;
    case Type::i16: return map2<F, uint8_t, int16_t, int16_t>;
    case Type::i32: return map2<F, uint8_t, int32_t, int32_t>;
    case Type::i64: return map2<F, uint8_t, int64_t, int64_t>;
    case Type::u8: return map2<F, uint8_t, uint8_t, uint8_t>;
    default: return nullptr;
  }
}

bool is_wide_float(Type type) { return type == Type::f32 || type == Type::f64; }

/* Moves and selections look at bits only, so element size is all that matters. */
uint32_t element_bytes(Type type) {
  for (const TypeInfo& info : kTypes)
    if (info.type == type) return info.bytes;
  return 0;
}

Elementwise copy(Type type) {
  switch (element_bytes(type)) {
    case 1: return map1<Copy, uint8_t, uint8_t>;
    case 2: return map1<Copy, uint16_t, uint16_t>;
    case 4: return map1<Copy, uint32_t, uint32_t>;
    case 8: return map1<Copy, uint64_t, uint64_t>;
    default: return nullptr;
  }
}

Elementwise select(Type type) {
  switch (element_bytes(type)) {
    case 1: return map3<Select, uint8_t, uint8_t, uint8_t, uint8_t>;
    case 2: return map3<Select, uint16_t, uint8_t, uint16_t, uint16_t>;
    case 4: return map3<Select, uint32_t, uint8_t, uint32_t, uint32_t>;
    case 8: return map3<Select, uint64_t, uint8_t, uint64_t, uint64_t>;
    default: return nullptr;
  }
}

Elementwise round_as(Type type, uint8_t mode) {
  switch (mode) {
    case kRoundFloor: return wide_unary<Floor>(type);
    case kRoundCeil: return wide_unary<Ceil>(type);
    case kRoundTrunc: return wide_unary<Trunc>(type);
    case kRoundEven: return wide_unary<Even>(type);
    default: return nullptr;
  }
}

Elementwise compare_as(Type type, uint8_t mode) {
  switch (mode) {
    case kCmpEq: return comparison<Eq>(type);
    case kCmpNe: return comparison<Ne>(type);
    case kCmpLt: return comparison<Lt>(type);
    case kCmpLe: return comparison<Le>(type);
    case kCmpGt: return comparison<Gt>(type);
    case kCmpGe: return comparison<Ge>(type);
    default: return nullptr;
  }
}

}  // namespace

namespace EMU_LEVEL {

Elementwise arithmetic(Op op, Type type, Type, uint8_t mode) {
  switch (op) {
    case Op::const_:
    case Op::load:
    case Op::loads:
    case Op::store:
    case Op::stores:
    case Op::mov: return copy(type);
    case Op::add: return binary<Add>(type);
    case Op::sub: return binary<Sub>(type);
    case Op::mul: return binary<Mul>(type);
    case Op::div: return binary<Div>(type);
    case Op::rem: return is_wide_float(type) ? wide_binary<Rem>(type) : integer_binary<Rem>(type);
    case Op::fma:
      return type == Type::f32 ? map3<Fma, float, float, float, float> : map3<Fma, double, double, double, double>;
    case Op::min: return binary<Min>(type);
    case Op::max: return binary<Max>(type);
    case Op::neg: return unary<Neg>(type);
    case Op::abs: return unary<Abs>(type);
    case Op::and_: return integer_binary<And>(type);
    case Op::or_: return integer_binary<Or>(type);
    case Op::xor_: return integer_binary<Xor>(type);
    case Op::shl: return integer_binary<Shl>(type);
    case Op::shr: return integer_binary<Shr>(type);
    case Op::sqrt: return wide_unary<Sqrt>(type);
    case Op::round: return round_as(type, mode);
    case Op::cmp: return compare_as(type, mode);
    case Op::sel: return select(type);
    case Op::pand: return map2<PredicateAnd, uint8_t, uint8_t, uint8_t>;
    case Op::por: return map2<PredicateOr, uint8_t, uint8_t, uint8_t>;
    case Op::pnot: return map1<PredicateNot, uint8_t, uint8_t>;
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
