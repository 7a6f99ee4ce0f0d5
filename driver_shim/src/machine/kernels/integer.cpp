/* High halves of products, counts of bits, and the counter-based generator. */
#include "map.h"
#include "number.h"

namespace emu::machine {
namespace {

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

template <class T>
constexpr unsigned kBits = sizeof(T) * 8;

/* The bits of x, with zeros above. */
template <class T>
inline uint64_t raw(T x) {
  return static_cast<uint64_t>(x) & (~uint64_t{0} >> (64 - kBits<T>));
}

struct MultiplyHigh {
  static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(int128{a} * b >> 64); }
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(int64_t{a} * b >> kBits<T>);
  }
};
struct MultiplyHighUnsigned {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(uint128{static_cast<uint64_t>(a)} * static_cast<uint64_t>(b) >> 64);
  }
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(raw(a) * raw(b) >> kBits<T>);
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return static_cast<T>(~a);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, T b) {
    const bool inside = b >= T(0) && static_cast<uint64_t>(b) < kBits<T>;
    return inside ? static_cast<T>(raw(a) >> (static_cast<uint64_t>(b) & 63)) : T(0);
  }
};
/* Sums of neighbours in ever wider fields. */
inline uint64_t ones(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  x += x >> 8;
  x += x >> 16;
  x += x >> 32;
  return x & 0x7f;
}
struct CountOnes {
  template <class T>
  static T of(T a) {
    return static_cast<T>(ones(raw(a)));
  }
};
struct CountLeadingZeros {
  template <class T>
  static T of(T a) {
    uint64_t x = raw(a); /* the highest bit set, and all below it */
    x |= x >> 1;
    x |= x >> 2;
    x |= x >> 4;
    x |= x >> 8;
    x |= x >> 16;
    x |= x >> 32;
    return static_cast<T>(kBits<T> - ones(x));
  }
};
struct CountTrailingZeros {
  template <class T>
  static T of(T a) {
    const uint64_t x = raw(a);
    return static_cast<T>(x == 0 ? kBits<T> : ones(~x & (x - 1)));
  }
};

/* Philox 4x32-10: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC11). */
template <unsigned word>
struct Philox {
  static int32_t of(uint64_t key, uint64_t high, uint64_t low) {
    uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                     static_cast<uint32_t>(high >> 32)};
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xd2511f53} * c[0], p1 = uint64_t{0xcd9e8d57} * c[2];
      c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0;
      c[1] = static_cast<uint32_t>(p1);
      c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1;
      c[3] = static_cast<uint32_t>(p0);
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    return static_cast<int32_t>(c[word]);
  }
};

template <class F>
Elementwise binary(Type type) {
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
Elementwise unary(Type type) {
  switch (type) {
    case Type::i8: return map1<F, int8_t, int8_t>;
    case Type::i16: return map1<F, int16_t, int16_t>;
    case Type::i32: return map1<F, int32_t, int32_t>;
    case Type::i64: return map1<F, int64_t, int64_t>;
    case Type::u8: return map1<F, uint8_t, uint8_t>;
    default: return nullptr;
  }
}

template <unsigned word>
constexpr Elementwise kPhilox = map3<Philox<word>, int32_t, uint64_t, uint64_t, uint64_t>;

Elementwise philox(uint8_t mode) {
  switch (mode) {
    case kPhiloxW0: return kPhilox<0>;
    case kPhiloxW1: return kPhilox<1>;
    case kPhiloxW2: return kPhilox<2>;
    case kPhiloxW3: return kPhilox<3>;
    default: return nullptr;
  }
}

}  // namespace

namespace EMU_LEVEL {

Elementwise integer(Op op, Type type, Type, uint8_t mode) {
  switch (op) {
    case Op::mulh: return binary<MultiplyHigh>(type);
    case Op::mulhu: return binary<MultiplyHighUnsigned>(type);
    case Op::not_: return unary<Not>(type);
    case Op::shru: return binary<ShiftRight>(type);
    case Op::popc: return unary<CountOnes>(type);
    case Op::clz: return unary<CountLeadingZeros>(type);
    case Op::ctz: return unary<CountTrailingZeros>(type);
    case Op::philox: return philox(mode);
    default: return nullptr;
  }
}

}  // namespace EMU_LEVEL
}  // namespace emu::machine
