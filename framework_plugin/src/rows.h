// The table of elementwise operators: one row each. The language is that of program.h.
#pragma once

#include "program.h"

namespace emu::rows {

// clang-format off
inline constexpr Row copy{"copy", "=a"};
inline constexpr Row fill{"fill", "mov.$T o, x", nullptr, nullptr, 1};
inline constexpr Row arange{"arange", "cvt.f64.i64 t0, i; mul.f64 t0, t0, y; add.f64 t0, t0, x; cvt.$T.f64 o, t0", nullptr, nullptr, 2, false, 0, "f64"};
inline constexpr Row arange_f64{"arange", "cvt.f64.i64 t0, i; mul.f64 t0, t0, y; add.f64 o, t0, x", nullptr, nullptr, 2, false, 0, "f64"};
inline constexpr Row arange_integer{"arange", "mul.i64 t0, i, y; add.i64 t0, t0, x; cvt.$T.i64 o, t0", nullptr, nullptr, 2, false, 0, "i64"};
inline constexpr Row arange_i64{"arange", "mul.i64 t0, i, y; add.i64 o, t0, x", nullptr, nullptr, 2, false, 0, "i64"};

inline constexpr Row gather{"gather", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::gather};
inline constexpr Row scatter{"scatter", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::scatter};
// By number of indices.
inline constexpr Row index[] = {
  {"index", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 6, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 8, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 10, false, 0, "i64", Indirect::gather_wrap}};
inline constexpr Row index_put[] = {
  {"index_put", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 6, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 8, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 10, false, 0, "i64", Indirect::scatter_wrap}};

inline constexpr Row add{"add", "add.$T o, a, b", nullptr, "or.u8 o, a, b"};
inline constexpr Row add_scaled{"add_scaled", "fma.$T o, b, x, a", "mul.$T t0, b, x; add.$T o, a, t0", "and.u8 t0, b, x; or.u8 o, a, t0", 1};
inline constexpr Row sub{"sub", "sub.$T o, a, b"};
inline constexpr Row mul = wide(kWideSecond, Row{"mul", "mul.$T o, a, b", nullptr, "and.u8 o, a, b"});
inline constexpr Row div = wide(kWideSecond, Row{"div", "div.$T o, a, b"});
inline constexpr Row div_trunc = only(kFloats | kIntegers, wide(kWideSecond, Row{"div_trunc", "div.$T t0, a, b; round.trunc.$T o, t0", "div.$T o, a, b"}));
inline constexpr Row div_floor = only(kFloats | kIntegers, wide(kWideSecond, {"div_floor",
  "rem.$T t0, a, b; sub.$T t1, a, t0; div.$T t1, t1, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0; cmp.lt.$T p2, t0, #0;"
  "pnot p3, p1; pand p3, p3, p2; pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3;"
  "sub.$T t2, t1, #1; sel.$T t1, p0, t2, t1; round.floor.$T t3, t1; sub.$T t4, t1, t3; add.$T t5, t3, #1;"
  "cmp.gt.$T p0, t4, #0.5; sel.$T t3, p0, t5, t3; div.$T t6, a, b; mul.$T t7, t6, #0; cmp.eq.$T p0, t1, #0;"
  "sel.$T t3, p0, t7, t3; cmp.eq.$T p0, b, #0; sel.$T o, p0, t6, t3",
  "div.$T t0, a, b; rem.$T t1, a, b; cmp.ne.$T p0, t1, #0; xor.$T t2, t1, b; cmp.lt.$T p1, t2, #0; pand p0, p0, p1;"
  "sub.$T t3, t0, #1; sel.$T o, p0, t3, t0"}));
inline constexpr Row fmod = only(kFloats | kIntegers, Row{"fmod", "rem.$T o, a, b"});
inline constexpr Row remainder = only(kFloats | kIntegers, Row{"remainder",
  "rem.$T t0, a, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0; cmp.lt.$T p2, t0, #0; pnot p3, p1; pand p3, p3, p2;"
  "pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3; add.$T t1, t0, b; sel.$T o, p0, t1, t0"});
inline constexpr Row minimum{"minimum", "min.$T o, a, b"};
inline constexpr Row maximum{"maximum", "max.$T o, a, b"};

inline constexpr Row neg{"neg", "neg.$T o, a"};
inline constexpr Row abs{"abs", "abs.$T o, a", "cmp.lt.$T p0, a, #0; neg.$T t0, a; sel.$T o, p0, t0, a", "=a"};
inline constexpr Row reciprocal = only(kFloats, Row{"reciprocal", "div.$T o, #1, a"});
inline constexpr Row sqrt = only(kFloats, Row{"sqrt", "sqrt.$T o, a"});
inline constexpr Row rsqrt = only(kFloats, Row{"rsqrt", "sqrt.$T t0, a; div.$T o, #1, t0"});
inline constexpr Row exp = only(kFloats, Row{"exp", "exp.$T o, a"});
inline constexpr Row log = only(kFloats, Row{"log", "log.$T o, a"});
inline constexpr Row tanh = only(kFloats, Row{"tanh", "tanh.$T o, a"});
inline constexpr Row sigmoid = only(kFloats, Row{"sigmoid", "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1; div.$T o, t2, t1"});
inline constexpr Row floor = only(kFloats | kIntegers, Row{"floor", "round.floor.$T o, a", "=a"});
inline constexpr Row ceil = only(kFloats | kIntegers, Row{"ceil", "round.ceil.$T o, a", "=a"});
inline constexpr Row trunc = only(kFloats | kIntegers, Row{"trunc", "round.trunc.$T o, a", "=a"});
inline constexpr Row round = only(kFloats | kIntegers, Row{"round", "round.even.$T o, a", "=a"});
inline constexpr Row frac = only(kFloats, Row{"frac", "round.trunc.$T t0, a; sub.$T o, a, t0"});
inline constexpr Row sign{"sign",
  "cmp.gt.$T p0, a, #0; cmp.lt.$T p1, a, #0; sel.$T t0, p0, #1, #0; sel.$T t1, p1, #1, #0; sub.$T o, t0, t1", nullptr, "=a"};
inline constexpr Row isnan{"isnan", "cmp.ne.$T p0, a, a", nullptr, nullptr, 0, true};
inline constexpr Row logical_not{"logical_not", "cmp.eq.$T p0, a, #0", nullptr, nullptr, 0, true};
inline constexpr Row bitwise_not = only(kIntegers | kBooleans, Row{"bitwise_not", "neg.$T t0, a; sub.$T o, t0, #1", nullptr, "xor.u8 o, a, #1"});

inline constexpr Row eq{"eq", "cmp.eq.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row ne{"ne", "cmp.ne.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row lt{"lt", "cmp.lt.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row le{"le", "cmp.le.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row gt{"gt", "cmp.gt.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row ge{"ge", "cmp.ge.$T p0, a, b", nullptr, nullptr, 0, true};
inline constexpr Row logical_and{"logical_and", "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; pand p0, p0, p1", nullptr, nullptr, 0, true};
inline constexpr Row logical_or{"logical_or", "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; por p0, p0, p1", nullptr, nullptr, 0, true};
inline constexpr Row logical_xor{"logical_xor",
  "cmp.ne.$T p0, a, #0; cmp.ne.$T p1, b, #0; pand p2, p0, p1; pnot p2, p2; por p0, p0, p1; pand p0, p0, p2", nullptr, nullptr, 0, true};
inline constexpr Row bitwise_and = only(kIntegers | kBooleans, Row{"bitwise_and", "and.$T o, a, b"});
inline constexpr Row bitwise_or = only(kIntegers | kBooleans, Row{"bitwise_or", "or.$T o, a, b"});
inline constexpr Row bitwise_xor = only(kIntegers | kBooleans, Row{"bitwise_xor", "xor.$T o, a, b"});
inline constexpr Row shift_left = only(kIntegers, Row{"shift_left", "shl.$T o, a, b"});
inline constexpr Row shift_right = only(kIntegers, Row{"shift_right", "shr.$T o, a, b"});

inline constexpr Row where{"where", "cmp.ne.u8 p0, a, #0; sel.$T o, p0, b, c", nullptr, nullptr, 0, false, 1};
inline constexpr Row masked_fill{"masked_fill", "cmp.ne.u8 p0, a, #0; sel.$T o, p0, x, b", nullptr, nullptr, 1, false, 1};
inline constexpr Row clamp{"clamp", "max.$T t0, a, x; min.$T o, t0, y", nullptr, nullptr, 2};
inline constexpr Row clamp_min = only(kFloats | kIntegers, Row{"clamp_min", "max.$T o, a, x", nullptr, nullptr, 1});
inline constexpr Row clamp_max = only(kFloats | kIntegers, Row{"clamp_max", "min.$T o, a, x", nullptr, nullptr, 1});
inline constexpr Row clamp_tensor{"clamp_tensor", "max.$T t0, a, b; min.$T o, t0, c"};
inline constexpr Row threshold = only(kFloats | kIntegers, wide(1, Row{"threshold", "cmp.le.$T p0, a, x; sel.$T o, p0, y, a", nullptr, nullptr, 2}));
inline constexpr Row threshold_backward = only(kFloats | kIntegers, wide(1, Row{"threshold_backward", "cmp.le.$T p0, a, x; sel.$T o, p0, #0, b", nullptr, nullptr, 1}));
inline constexpr Row tanh_backward{"tanh_backward", "mul.$T t0, b, b; sub.$T t0, #1, t0; mul.$T o, a, t0"};
inline constexpr Row sigmoid_backward{"sigmoid_backward", "sub.$T t0, #1, b; mul.$T t0, a, t0; mul.$T o, t0, b"};
inline constexpr Row silu = only(kFloats, Row{"silu", "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1; div.$T t2, t2, t1; mul.$T o, a, t2"});
inline constexpr Row silu_backward{"silu_backward",
  "neg.$T t0, b; exp.$T t0, t0; add.$T t0, t0, #1; div.$T t0, #1, t0; sub.$T t1, #1, t0; mul.$T t1, t1, b; add.$T t1, t1, #1;"
  "mul.$T t0, t0, t1; mul.$T o, a, t0"};
inline constexpr Row gelu_tanh = only(kFloats, Row{"gelu_tanh",
  "mul.$T t0, a, a; mul.$T t0, t0, a; mul.$T t0, t0, #0.044715; add.$T t0, t0, a; mul.$T t0, t0, #0.7978845608028654;"
  "tanh.$T t0, t0; add.$T t0, t0, #1; mul.$T t1, a, #0.5; mul.$T o, t1, t0"});
inline constexpr Row leaky_relu = only(kFloats, wide(1, Row{"leaky_relu", "mul.$T t0, a, x; cmp.gt.$T p0, a, #0; sel.$T o, p0, a, t0", nullptr, nullptr, 1}));
inline constexpr Row addcmul = only(kFloats | kIntegers, wide(1, {"addcmul", "mul.$T t0, b, x; fma.$T o, t0, c, a", "mul.$T t0, b, x; mul.$T t0, t0, c; add.$T o, a, t0", nullptr, 1}));
inline constexpr Row addcdiv = only(kFloats, wide(1, Row{"addcdiv", "mul.$T t0, b, x; div.$T t0, t0, c; add.$T o, a, t0", nullptr, nullptr, 1}));
inline constexpr Row lerp_low = only(kFloats, wide(1, {"lerp_low", "sub.$T t0, b, a; fma.$T o, t0, x, a", nullptr, nullptr, 1}));
inline constexpr Row lerp_high = only(kFloats, wide(1, {"lerp_high", "sub.$T t0, b, a; fma.$T o, t0, x, b", nullptr, nullptr, 1})); // x: weight - 1
inline constexpr Row lerp_tensor = only(kFloats, {"lerp_tensor",
  "sub.$T t0, b, a; fma.$T t1, t0, c, a; sub.$T t2, c, #1; fma.$T t2, t0, t2, b; abs.$T t3, c; cmp.lt.$T p0, t3, #0.5; sel.$T o, p0, t1, t2"});
inline constexpr Row square{"square", "mul.$T o, a, a"};
inline constexpr Row cube{"cube", "mul.$T t0, a, a; mul.$T o, t0, a"};
inline constexpr Row square_reciprocal{"square_reciprocal", "mul.$T t0, a, a; div.$T o, #1, t0"};
inline constexpr Row squared_difference{"squared_difference", "sub.$T t0, a, b; mul.$T o, t0, t0"};
// |a|^x in f64 for f32 and halves, 1 where |a| is; then for a negative base the sign of an odd integer power, and
// NaN for a power that is no integer, unless the base is infinite or -0 (below zero by its reciprocal).
inline constexpr Row pow{"pow",
  "cvt.f64.$T t0, a; cvt.f64.$T t1, b; abs.f64 t2, t0; log.f64 t3, t2; mul.f64 t3, t3, t1; exp.f64 t4, t3;"
  "cmp.eq.f64 p3, t2, #1; sel.f64 t4, p3, #1, t4;"
  "round.floor.f64 t5, t1; mul.f64 t6, t1, #0.5; round.floor.f64 t7, t6; cmp.ne.f64 p0, t7, t6; cmp.eq.f64 p1, t5, t1;"
  "neg.f64 t8, t4; pand p0, p0, p1; sel.f64 t8, p0, t8, t4; cmp.eq.f64 p3, t2, #inf; por p1, p1, p3;"
  "cmp.eq.f64 p3, t2, #0; por p1, p1, p3; sel.f64 t8, p1, t8, #nan; cmp.lt.f64 p2, t0, #0; div.f64 t9, #1, t0; cmp.lt.f64 p3, t9, #0;"
  "por p2, p2, p3; sel.f64 t4, p2, t8, t4; cmp.eq.f64 p3, t1, #0; sel.f64 t4, p3, #1, t4; cvt.$T.f64 o, t4"};
// clang-format on

}  // namespace emu::rows
