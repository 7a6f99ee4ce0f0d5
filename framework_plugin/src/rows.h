// The table of elementwise operators: one row each, for floating point where `over` does not say otherwise. The
// language is that of program.h.
#pragma once

#include <array>

#include "program.h"

namespace emu::rows {

// clang-format off
inline constexpr Row copy = over(kAny, Row{"copy", "=a"});
inline constexpr Row fill = over(kAny, Row{"fill", "mov.$T o, x", nullptr, nullptr, 1});
inline constexpr Row arange = over(kAny, Row{"arange",
  "cvt.f64.i64 t0, i; mul.f64 t0, t0, y; add.f64 t0, t0, x; cvt.$T.f64 o, t0", nullptr, nullptr, 2, false, 0, "f64"});
inline constexpr Row arange_f64 = over(kAny, Row{"arange",
  "cvt.f64.i64 t0, i; mul.f64 t0, t0, y; add.f64 o, t0, x", nullptr, nullptr, 2, false, 0, "f64"});
inline constexpr Row arange_integer = over(kAny, Row{"arange",
  "mul.i64 t0, i, y; add.i64 t0, t0, x; cvt.$T.i64 o, t0", nullptr, nullptr, 2, false, 0, "i64"});
inline constexpr Row arange_i64 = over(kAny, Row{"arange",
  "mul.i64 t0, i, y; add.i64 o, t0, x", nullptr, nullptr, 2, false, 0, "i64"});

inline constexpr Row gather{"gather", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::gather};
inline constexpr Row scatter{"scatter", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::scatter};
// Four rows each, by number of indices: size and stride of each, the record's address and what is told.
constexpr std::array<Row, 4> by_count(const char* name, Indirect indirect) {
  const auto row = [&](uint8_t scalars) {
    return Row{name, "", nullptr, nullptr, scalars, false, 0, "i64", indirect};
  };
  return {row(4), row(6), row(8), row(10)};
}
inline constexpr auto index = by_count("index", Indirect::gather_wrap);
inline constexpr auto index_put = by_count("index_put", Indirect::scatter_wrap);
// Into the second operand, for index_put that adds, or whose order is part of the result.
inline constexpr auto index_put_from = by_count("index_put", Indirect::put_wrap);
inline constexpr auto index_add = by_count("index_add", Indirect::add_wrap);

inline constexpr Row add = over(kAny, Row{"add", "add.$T o, a, b", nullptr, "or.u8 o, a, b"});
inline constexpr Row add_scaled = over(kAny, Row{"add_scaled",
  "fma.$T o, b, x, a", "mul.$T t0, b, x; add.$T o, a, t0", "and.u8 t0, b, x; or.u8 o, a, t0", 1});
inline constexpr Row sub = over(kNumbers, Row{"sub", "sub.$T o, a, b"});
inline constexpr Row mul = over(kAny, wide(kWideSecond, Row{"mul", "mul.$T o, a, b", nullptr, "and.u8 o, a, b"}));
inline constexpr Row div = wide(kWideSecond, Row{"div", "div.$T o, a, b"});
inline constexpr Row div_trunc = over(kNumbers, wide(kWideSecond, Row{"div_trunc",
  "div.$T t0, a, b; round.trunc.$T o, t0", "div.$T o, a, b"}));
inline constexpr Row div_floor = over(kNumbers, wide(kWideSecond, {"div_floor",
  "rem.$T t0, a, b; sub.$T t1, a, t0; div.$T t1, t1, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0;"
  "cmp.lt.$T p2, t0, #0;"
  "pnot p3, p1; pand p3, p3, p2; pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3;"
  "sub.$T t2, t1, #1; sel.$T t1, p0, t2, t1; round.floor.$T t3, t1; sub.$T t4, t1, t3; add.$T t5, t3, #1;"
  "cmp.gt.$T p0, t4, #0.5; sel.$T t3, p0, t5, t3; div.$T t6, a, b; mul.$T t7, t6, #0; cmp.eq.$T p0, t1, #0;"
  "sel.$T t3, p0, t7, t3; cmp.eq.$T p0, b, #0; sel.$T o, p0, t6, t3",
  "div.$T t0, a, b; rem.$T t1, a, b; cmp.ne.$T p0, t1, #0; xor.$T t2, t1, b; cmp.lt.$T p1, t2, #0; pand p0, p0, p1;"
  "sub.$T t3, t0, #1; sel.$T o, p0, t3, t0"}));
inline constexpr Row fmod = over(kNumbers, Row{"fmod", "rem.$T o, a, b"});
inline constexpr Row remainder = over(kNumbers, Row{"remainder",
  "rem.$T t0, a, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0; cmp.lt.$T p2, t0, #0; pnot p3, p1; pand p3, p3, p2;"
  "pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3; add.$T t1, t0, b; sel.$T o, p0, t1, t0"});
inline constexpr Row minimum = over(kAny, Row{"minimum", "min.$T o, a, b"});
inline constexpr Row maximum = over(kAny, Row{"maximum", "max.$T o, a, b"});

inline constexpr Row neg = over(kNumbers, Row{"neg", "neg.$T o, a"});
inline constexpr Row abs = over(kNumbers, Row{"abs",
  "abs.$T o, a", "cmp.lt.$T p0, a, #0; neg.$T t0, a; sel.$T o, p0, t0, a"});
inline constexpr Row reciprocal{"reciprocal", "div.$T o, #1, a"};
inline constexpr Row sqrt{"sqrt", "sqrt.$T o, a"};
inline constexpr Row rsqrt{"rsqrt", "sqrt.$T t0, a; div.$T o, #1, t0"};
inline constexpr Row exp{"exp", "exp.$T o, a"};
inline constexpr Row log{"log", "log.$T o, a"};
inline constexpr Row tanh{"tanh", "tanh.$T o, a"};
inline constexpr Row sigmoid{"sigmoid",
  "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1;"
  "div.$T o, t2, t1"};
inline constexpr Row floor = over(kNumbers, Row{"floor", "round.floor.$T o, a", "=a"});
inline constexpr Row ceil = over(kNumbers, Row{"ceil", "round.ceil.$T o, a", "=a"});
inline constexpr Row trunc = over(kNumbers, Row{"trunc", "round.trunc.$T o, a", "=a"});
inline constexpr Row round = over(kNumbers, Row{"round", "round.even.$T o, a", "=a"});
inline constexpr Row frac{"frac", "round.trunc.$T t0, a; sub.$T o, a, t0"};
inline constexpr Row sign = over(kAny, Row{"sign",
  "cmp.gt.$T p0, a, #0; cmp.lt.$T p1, a, #0; sel.$T t0, p0, #1, #0; sel.$T t1, p1, #1, #0; sub.$T o, t0, t1", nullptr,
  "=a"});
inline constexpr Row isnan = over(kAny, Row{"isnan", "cmp.ne.$T p0, a, a", nullptr, nullptr, 0, true});
inline constexpr Row logical_not = over(kAny, Row{"logical_not", "cmp.eq.$T p0, a, #0", nullptr, nullptr, 0, true});
inline constexpr Row bitwise_not = over(kBits, Row{"bitwise_not",
  "neg.$T t0, a; sub.$T o, t0, #1", nullptr, "xor.u8 o, a, #1"});

inline constexpr Row eq = over(kAny, Row{"eq", "cmp.eq.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row ne = over(kAny, Row{"ne", "cmp.ne.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row lt = over(kAny, Row{"lt", "cmp.lt.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row le = over(kAny, Row{"le", "cmp.le.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row gt = over(kAny, Row{"gt", "cmp.gt.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row ge = over(kAny, Row{"ge", "cmp.ge.$T p0, a, b", nullptr, nullptr, 0, true});
inline constexpr Row logical_and = over(kAny, Row{"logical_and",
  "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; pand p0, p0, p1", nullptr, nullptr, 0, true});
inline constexpr Row logical_or = over(kAny, Row{"logical_or",
  "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; por p0, p0, p1", nullptr, nullptr, 0, true});
inline constexpr Row logical_xor = over(kAny, Row{"logical_xor",
  "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; pand p2, p0, p1; pnot p2, p2;"
  "por p0, p0, p1; pand p0, p0, p2", nullptr, nullptr, 0, true});
inline constexpr Row bitwise_and = over(kBits, Row{"bitwise_and", "and.$T o, a, b"});
inline constexpr Row bitwise_or = over(kBits, Row{"bitwise_or", "or.$T o, a, b"});
inline constexpr Row bitwise_xor = over(kBits, Row{"bitwise_xor", "xor.$T o, a, b"});
inline constexpr Row shift_left = over(kIntegers, Row{"shift_left", "shl.$T o, a, b"});
inline constexpr Row shift_right = over(kIntegers, Row{"shift_right", "shr.$T o, a, b"});

inline constexpr Row where = over(kAny, Row{"where",
  "cmp.ne.u8 p0, a, #0; sel.$T o, p0, b, c", nullptr, nullptr, 0, false, 1});
inline constexpr Row masked_fill = over(kAny, Row{"masked_fill",
  "cmp.ne.u8 p0, a, #0; sel.$T o, p0, x, b", nullptr, nullptr, 1, false, 1});
inline constexpr Row clamp = over(kNumbers, Row{"clamp", "max.$T t0, a, x; min.$T o, t0, y", nullptr, nullptr, 2});
inline constexpr Row clamp_min = over(kNumbers, Row{"clamp_min", "max.$T o, a, x", nullptr, nullptr, 1});
inline constexpr Row clamp_max = over(kNumbers, Row{"clamp_max", "min.$T o, a, x", nullptr, nullptr, 1});
inline constexpr Row clamp_tensor = over(kNumbers, Row{"clamp_tensor", "max.$T t0, a, b; min.$T o, t0, c"});
inline constexpr Row threshold = over(kNumbers, wide(1, Row{"threshold",
  "cmp.le.$T p0, a, x; sel.$T o, p0, y, a", nullptr, nullptr, 2}));
inline constexpr Row threshold_backward = over(kNumbers, wide(1, Row{"threshold_backward",
  "cmp.le.$T p0, a, x; sel.$T o, p0, #0, b", nullptr, nullptr, 1}));
inline constexpr Row tanh_backward{"tanh_backward", "mul.$T t0, b, b; sub.$T t0, #1, t0; mul.$T o, a, t0"};
inline constexpr Row sigmoid_backward{"sigmoid_backward", "sub.$T t0, #1, b; mul.$T t0, a, t0; mul.$T o, t0, b"};
inline constexpr Row silu{"silu",
  "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1;"
  "div.$T t2, t2, t1; mul.$T o, a, t2"};
inline constexpr Row silu_backward{"silu_backward",
  "neg.$T t0, b; exp.$T t0, t0; add.$T t0, t0, #1; div.$T t0, #1, t0; sub.$T t1, #1, t0; mul.$T t1, t1, b;"
  "add.$T t1, t1, #1;"
  "mul.$T t0, t0, t1; mul.$T o, a, t0"};
inline constexpr Row gelu_tanh{"gelu_tanh",
  "mul.$T t0, a, a; mul.$T t0, t0, a; mul.$T t0, t0, #0.044715; add.$T t0, t0, a; mul.$T t0, t0, #0.7978845608028654;"
  "tanh.$T t0, t0; add.$T t0, t0, #1; mul.$T t1, a, #0.5; mul.$T o, t1, t0"};
inline constexpr Row leaky_relu = wide(1, Row{"leaky_relu",
  "mul.$T t0, a, x; cmp.gt.$T p0, a, #0; sel.$T o, p0, a, t0", nullptr, nullptr, 1});
inline constexpr Row addcmul = over(kNumbers, wide(1, {"addcmul",
  "mul.$T t0, b, x; fma.$T o, t0, c, a", "mul.$T t0, b, x; mul.$T t0, t0, c; add.$T o, a, t0", nullptr, 1}));
inline constexpr Row addcdiv = wide(1, Row{"addcdiv",
  "mul.$T t0, b, x; div.$T t0, t0, c; add.$T o, a, t0", nullptr, nullptr, 1});
inline constexpr Row lerp_low = wide(1, {"lerp_low", "sub.$T t0, b, a; fma.$T o, t0, x, a", nullptr, nullptr, 1});
// x: weight - 1
inline constexpr Row lerp_high = wide(1, {"lerp_high", "sub.$T t0, b, a; fma.$T o, t0, x, b", nullptr, nullptr, 1});
inline constexpr Row lerp_tensor{"lerp_tensor",
  "sub.$T t0, b, a; fma.$T t1, t0, c, a; sub.$T t2, c, #1; fma.$T t2, t0, t2, b; abs.$T t3, c;"
  "cmp.lt.$T p0, t3, #0.5; sel.$T o, p0, t1, t2"};
inline constexpr Row square = over(kNumbers, Row{"square", "mul.$T o, a, a"});
inline constexpr Row cube = over(kNumbers, Row{"cube", "mul.$T t0, a, a; mul.$T o, t0, a"});
inline constexpr Row square_reciprocal{"square_reciprocal", "mul.$T t0, a, a; div.$T o, #1, t0"};
inline constexpr Row squared_difference{"squared_difference", "sub.$T t0, a, b; mul.$T o, t0, t0"};
// |a|^x in f64 for f32 and halves, 1 where |a| is; then for a negative base the sign of an odd integer power, and
// NaN for a power that is no integer, unless the base is infinite or -0 (below zero by its reciprocal).
inline constexpr Row pow{"pow",
  "cvt.f64.$T t0, a; cvt.f64.$T t1, b; abs.f64 t2, t0; log.f64 t3, t2; mul.f64 t3, t3, t1; exp.f64 t4, t3;"
  "cmp.eq.f64 p3, t2, #1; sel.f64 t4, p3, #1, t4;"
  "round.floor.f64 t5, t1; mul.f64 t6, t1, #0.5; round.floor.f64 t7, t6; cmp.ne.f64 p0, t7, t6; cmp.eq.f64 p1, t5, t1;"
  "neg.f64 t8, t4; pand p0, p0, p1; sel.f64 t8, p0, t8, t4; cmp.eq.f64 p3, t2, #inf; por p1, p1, p3;"
  "cmp.eq.f64 p3, t2, #0; por p1, p1, p3; sel.f64 t8, p1, t8, #nan; cmp.lt.f64 p2, t0, #0; div.f64 t9, #1, t0;"
  "cmp.lt.f64 p3, t9, #0;"
  "por p2, p2, p3; sel.f64 t4, p2, t8, t4; cmp.eq.f64 p3, t1, #0; sel.f64 t4, p3, #1, t4; cvt.$T.f64 o, t4"};
// clang-format on

}  // namespace emu::rows
