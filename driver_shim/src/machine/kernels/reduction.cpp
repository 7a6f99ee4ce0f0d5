/* Reductions over lanes, in the order that isa.toml fixes: sixteen partials, then halves onto halves; and scans. */
#include <limits>
#include <type_traits>

#include "kernels.h"
#include "number.h"

namespace emu::machine {
namespace {

constexpr uint32_t kPartials = 16;

inline float wrapping_add(float a, float b) { return a + b; }
inline double wrapping_add(double a, double b) { return a + b; }
inline int32_t wrapping_add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline float wrapping_mul(float a, float b) { return a * b; }
inline double wrapping_mul(double a, double b) { return a * b; }
inline int32_t wrapping_mul(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/* Zeros of either sign compare equal, so ties are told apart by bits; NaN stays once it is in. */
template <class T, class Bits>
inline T smaller(T a, T b) {
  const T ordered = a < b ? a : b < a ? b : bits_as<Bits>(a) < 0 ? a : b;
  return a != a ? a : b != b ? b : ordered;
}
template <class T, class Bits>
inline T larger(T a, T b) {
  const T ordered = a > b ? a : b > a ? b : bits_as<Bits>(a) < 0 ? b : a;
  return a != a ? a : b != b ? b : ordered;
}

template <class T>
struct Limits;
template <>
struct Limits<float> {
  using Bits = int32_t;
  static float most() { return __builtin_inff(); }
  static float least() { return -__builtin_inff(); }
};
template <>
struct Limits<double> {
  using Bits = int64_t;
  static double most() { return __builtin_inf(); }
  static double least() { return -__builtin_inf(); }
};
template <>
struct Limits<int32_t> {
  using Bits = int32_t;
  static int32_t most() { return INT32_MAX; }
  static int32_t least() { return INT32_MIN; }
};
template <>
struct Limits<int64_t> {
  using Bits = int64_t;
  static int64_t most() { return INT64_MAX; }
  static int64_t least() { return INT64_MIN; }
};

template <class T>
struct Sum {
  static T identity() { return T(0); }
  static T of(T a, T b) { return wrapping_add(a, b); }
};
template <class T>
struct Product {
  static T identity() { return T(1); }
  static T of(T a, T b) { return wrapping_mul(a, b); }
};
template <class T>
struct Least {
  static T identity() { return Limits<T>::most(); }
  static T of(T a, T b) { return smaller<T, typename Limits<T>::Bits>(a, b); }
};
template <class T>
struct Most {
  static T identity() { return Limits<T>::least(); }
  static T of(T a, T b) { return larger<T, typename Limits<T>::Bits>(a, b); }
};

/* Floats by their order, in which -0 comes before +0, as integers: a compiler makes no vector loop of the comparisons
 * above. A NaN lane is looked for beside it; every NaN is the same one once it is a result. */
template <class T, bool largest>
T extreme(const T* a, uint32_t lanes) {
  using Bits = typename Limits<T>::Bits;
  constexpr Bits magnitude = std::numeric_limits<Bits>::max();
  const Bits infinity = bits_as<Bits>(Limits<T>::most());
  const auto by_order = [](Bits bits) { return bits ^ ((bits >> (8 * sizeof bits - 1)) & magnitude); };
  Bits best = by_order(bits_as<Bits>(largest ? Limits<T>::least() : Limits<T>::most())), unordered = 0;
  for (uint32_t i = 0; i < lanes; ++i) {
    const Bits bits = bits_as<Bits>(a[i]), here = by_order(bits);
    unordered |= (bits & magnitude) > infinity ? 1 : 0;
    best = (largest ? here > best : here < best) ? here : best;
  }
  return unordered != 0 ? static_cast<T>(__builtin_nan("")) : bits_as<T>(by_order(best));
}

inline uint64_t as_uniform(float x) { return bits_as<uint32_t>(canonical(x)); }
inline uint64_t as_uniform(double x) { return bits_as<uint64_t>(canonical(x)); }
inline uint64_t as_uniform(int32_t x) { return static_cast<uint64_t>(int64_t{x}); }
inline uint64_t as_uniform(int64_t x) { return static_cast<uint64_t>(x); }

template <class F, class T>
T fold(const T* a, uint32_t lanes) {
  if constexpr (std::is_same_v<F, Least<T>> && std::is_floating_point_v<T>) return extreme<T, false>(a, lanes);
  if constexpr (std::is_same_v<F, Most<T>> && std::is_floating_point_v<T>) return extreme<T, true>(a, lanes);
  if (lanes == 0) return F::identity();
  T partial[kPartials];
  const uint32_t live = lanes < kPartials ? lanes : kPartials;
  for (uint32_t j = 0; j < live; ++j) partial[j] = a[j];
  uint32_t i = kPartials;
  for (; i + kPartials <= lanes; i += kPartials)
    for (uint32_t j = 0; j < kPartials; ++j) partial[j] = F::of(partial[j], a[i + j]);
  for (uint32_t j = 0; i + j < lanes; ++j) partial[j] = F::of(partial[j], a[i + j]);
  for (uint32_t half = kPartials / 2; half > 0; half /= 2)
    for (uint32_t j = 0; j < half && j + half < live; ++j) partial[j] = F::of(partial[j], partial[j + half]);
  return partial[0];
}

template <template <class> class F, class T>
void reduce(uint64_t* destination, const void* source, uint32_t lanes) {
  *destination = as_uniform(fold<F<T>>(static_cast<const T*>(source), lanes));
}

template <template <class> class F, class T>
void locate(uint64_t* destination, const void* source, uint32_t lanes) {
  const T* a = static_cast<const T*>(source);
  const T found = fold<F<T>>(a, lanes);
  *destination = ~uint64_t{0};
  for (uint32_t i = 0; i < lanes; ++i) {
    if (a[i] == found || a[i] != a[i]) { /* `found` is NaN if any lane is: then only the second holds */
      *destination = i;
      return;
    }
  }
}

template <template <class> class F>
Reduction reduce_as(Type type) {
  switch (type) {
    case Type::f32: return reduce<F, float>;
    case Type::f64: return reduce<F, double>;
    case Type::i32: return reduce<F, int32_t>;
    case Type::i64: return reduce<F, int64_t>;
    default: return nullptr;
  }
}

template <template <class> class F>
Reduction locate_as(Type type) {
  switch (type) {
    case Type::f32: return locate<F, float>;
    case Type::f64: return locate<F, double>;
    case Type::i32: return locate<F, int32_t>;
    case Type::i64: return locate<F, int64_t>;
    default: return nullptr;
  }
}

inline int32_t canonical(int32_t x) { return x; }
inline int64_t canonical(int64_t x) { return x; }

template <class F, class T, bool inclusive>
void accumulate(void* destination, const Source* sources, uint32_t lanes) {
  if (lanes == 0) return;
  const T* a = static_cast<const T*>(sources[0].data); /* may be the destination */
  T* d = static_cast<T*>(destination);
  T so_far = a[0];
  d[0] = inclusive ? canonical(so_far) : F::identity();
  for (uint32_t i = 1; i < lanes; ++i) {
    const T before = so_far;
    so_far = F::of(so_far, a[i]);
    d[i] = canonical(inclusive ? so_far : before);
  }
}

template <template <class> class F, bool inclusive>
Elementwise accumulate_as(Type type) {
  switch (type) {
    case Type::f32: return accumulate<F<float>, float, inclusive>;
    case Type::f64: return accumulate<F<double>, double, inclusive>;
    case Type::i32: return accumulate<F<int32_t>, int32_t, inclusive>;
    case Type::i64: return accumulate<F<int64_t>, int64_t, inclusive>;
    default: return nullptr;
  }
}

template <bool inclusive>
Elementwise scan_as(Type type, uint8_t mode) {
  switch (mode) {
    case kScanSum: return accumulate_as<Sum, inclusive>(type);
    case kScanProd: return accumulate_as<Product, inclusive>(type);
    case kScanMin: return accumulate_as<Least, inclusive>(type);
    case kScanMax: return accumulate_as<Most, inclusive>(type);
    default: return nullptr;
  }
}

static_assert(kScanSum == kScanxSum && kScanMax == kScanxMax);

void any(uint64_t* destination, const void* source, uint32_t lanes) {
  const uint8_t* p = static_cast<const uint8_t*>(source);
  uint8_t all = 0;
  for (uint32_t i = 0; i < lanes; ++i) all |= p[i];
  *destination = all;
}

}  // namespace

namespace EMU_LEVEL {

Reduction reduction(Op op, Type type, uint8_t mode) {
  if (op == Op::any) return any;
  if (op == Op::argreduce) return mode == kArgreduceMin ? locate_as<Least>(type) : locate_as<Most>(type);
  if (op != Op::reduce) return nullptr;
  switch (mode) {
    case kReduceSum: return reduce_as<Sum>(type);
    case kReduceProd: return reduce_as<Product>(type);
    case kReduceMin: return reduce_as<Least>(type);
    case kReduceMax: return reduce_as<Most>(type);
    default: return nullptr;
  }
}

Elementwise scan(Op op, Type type, Type, uint8_t mode) {
  if (op == Op::scan) return scan_as<true>(type, mode);
  return op == Op::scanx ? scan_as<false>(type, mode) : nullptr;
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
