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

inline constexpr Row gather{"gather", "", nullptr, nullptr, 2, false, 0, "i64", Indirect::gather};
inline constexpr Row scatter{"scatter", "", nullptr, nullptr, 2, false, 0, "i64", Indirect::scatter};
// By number of indices.
inline constexpr Row index[] = {
  {"index", "", nullptr, nullptr, 2, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 6, false, 0, "i64", Indirect::gather_wrap},
  {"index", "", nullptr, nullptr, 8, false, 0, "i64", Indirect::gather_wrap}};
inline constexpr Row index_put[] = {
  {"index_put", "", nullptr, nullptr, 2, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 4, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 6, false, 0, "i64", Indirect::scatter_wrap},
  {"index_put", "", nullptr, nullptr, 8, false, 0, "i64", Indirect::scatter_wrap}};

inline constexpr Row add{"add", "add.$T o, a, b", nullptr, "or.u8 o, a, b"};
inline constexpr Row add_scaled{"add_scaled", "fma.$T o, b, x, a", "mul.$T t0, b, x; add.$T o, a, t0", "and.u8 t0, b, x; or.u8 o, a, t0", 1};
inline constexpr Row sub{"sub", "sub.$T o, a, b"};
inline constexpr Row rsub{"rsub", "sub.$T o, b, a"};
inline constexpr Row rsub_scaled{"rsub_scaled", "mul.$T t0, a, x; sub.$T o, b, t0", nullptr, nullptr, 1};
inline constexpr Row mul{"mul", "mul.$T o, a, b", nullptr, "and.u8 o, a, b"};
inline constexpr Row div{"div", "div.$T o, a, b"};
inline constexpr Row div_trunc{"div_trunc", "div.$T t0, a, b; round.trunc.$T o, t0", "div.$T o, a, b"};
inline constexpr Row div_floor{"div_floor",
  "rem.$T t0, a, b; sub.$T t1, a, t0; div.$T t1, t1, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0; cmp.lt.$T p2, t0, #0;"
  "pnot p3, p1; pand p3, p3, p2; pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3;"
  "sub.$T t2, t1, #1; sel.$T t1, p0, t2, t1; round.floor.$T t3, t1; sub.$T t4, t1, t3; add.$T t5, t3, #1;"
  "cmp.gt.$T p0, t4, #0.5; sel.$T t3, p0, t5, t3; cmp.eq.$T p0, b, #0; div.$T t6, a, b; sel.$T o, p0, t6, t3",
  "div.$T t0, a, b; rem.$T t1, a, b; cmp.ne.$T p0, t1, #0; xor.$T t2, t1, b; cmp.lt.$T p1, t2, #0; pand p0, p0, p1;"
  "sub.$T t3, t0, #1; sel.$T o, p0, t3, t0"};
inline constexpr Row fmod{"fmod", "rem.$T o, a, b"};
inline constexpr Row remainder{"remainder",
  "rem.$T t0, a, b; cmp.ne.$T p0, t0, #0; cmp.lt.$T p1, b, #0; cmp.lt.$T p2, t0, #0; pnot p3, p1; pand p3, p3, p2;"
  "pnot p4, p2; pand p4, p4, p1; por p3, p3, p4; pand p0, p0, p3; add.$T t1, t0, b; sel.$T o, p0, t1, t0"};
inline constexpr Row minimum{"minimum", "min.$T o, a, b"};
inline constexpr Row maximum{"maximum", "max.$T o, a, b"};

inline constexpr Row neg{"neg", "neg.$T o, a"};
inline constexpr Row abs{"abs", "abs.$T o, a", "cmp.lt.$T p0, a, #0; neg.$T t0, a; sel.$T o, p0, t0, a", "=a"};
inline constexpr Row reciprocal{"reciprocal", "div.$T o, #1, a"};
inline constexpr Row sqrt{"sqrt", "sqrt.$T o, a"};
inline constexpr Row rsqrt{"rsqrt", "sqrt.$T t0, a; div.$T o, #1, t0"};
inline constexpr Row exp{"exp", "exp.$T o, a"};
inline constexpr Row log{"log", "log.$T o, a"};
inline constexpr Row tanh{"tanh", "tanh.$T o, a"};
inline constexpr Row sigmoid{"sigmoid", "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1; div.$T o, t2, t1"};
inline constexpr Row floor{"floor", "round.floor.$T o, a", "=a"};
inline constexpr Row ceil{"ceil", "round.ceil.$T o, a", "=a"};
inline constexpr Row trunc{"trunc", "round.trunc.$T o, a", "=a"};
inline constexpr Row round{"round", "round.even.$T o, a", "=a"};
inline constexpr Row frac{"frac", "round.trunc.$T t0, a; sub.$T o, a, t0"};
inline constexpr Row sign{"sign",
  "cmp.gt.$T p0, a, #0; cmp.lt.$T p1, a, #0; sel.$T t0, p0, #1, #0; sel.$T t1, p1, #1, #0; sub.$T o, t0, t1", nullptr, "=a"};
inline constexpr Row isnan{"isnan", "cmp.ne.$T p0, a, a", nullptr, nullptr, 0, true};
inline constexpr Row logical_not{"logical_not", "cmp.eq.$T p0, a, #0", nullptr, nullptr, 0, true};
inline constexpr Row bitwise_not{"bitwise_not", "neg.$T t0, a; sub.$T o, t0, #1", nullptr, "xor.u8 o, a, #1"};
inline constexpr Row relu{"relu", "cmp.lt.$T p0, a, #0; sel.$T o, p0, #0, a"};

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
inline constexpr Row bitwise_and{"bitwise_and", "and.$T o, a, b"};
inline constexpr Row bitwise_or{"bitwise_or", "or.$T o, a, b"};
inline constexpr Row bitwise_xor{"bitwise_xor", "xor.$T o, a, b"};
inline constexpr Row shift_left{"shift_left", "shl.$T o, a, b"};
inline constexpr Row shift_right{"shift_right", "shr.$T o, a, b"};

inline constexpr Row where{"where", "cmp.ne.u8 p0, a, #0; sel.$T o, p0, b, c", nullptr, nullptr, 0, false, 1};
inline constexpr Row masked_fill{"masked_fill", "cmp.ne.u8 p0, a, #0; sel.$T o, p0, x, b", nullptr, nullptr, 1, false, 1};
inline constexpr Row clamp{"clamp", "max.$T t0, a, x; min.$T o, t0, y", nullptr, nullptr, 2};
inline constexpr Row clamp_min{"clamp_min", "max.$T o, a, x", nullptr, nullptr, 1};
inline constexpr Row clamp_max{"clamp_max", "min.$T o, a, x", nullptr, nullptr, 1};
inline constexpr Row clamp_tensor{"clamp_tensor", "max.$T t0, a, b; min.$T o, t0, c"};
inline constexpr Row threshold{"threshold", "cmp.le.$T p0, a, x; sel.$T o, p0, y, a", nullptr, nullptr, 2};
inline constexpr Row threshold_backward{"threshold_backward", "cmp.le.$T p0, a, x; sel.$T o, p0, #0, b", nullptr, nullptr, 1};
inline constexpr Row tanh_backward{"tanh_backward", "mul.$T t0, b, b; sub.$T t0, #1, t0; mul.$T o, a, t0"};
inline constexpr Row sigmoid_backward{"sigmoid_backward", "sub.$T t0, #1, b; mul.$T t0, t0, b; mul.$T o, a, t0"};
inline constexpr Row silu{"silu", "abs.$T t0, a; neg.$T t0, t0; exp.$T t0, t0; add.$T t1, t0, #1; cmp.lt.$T p0, a, #0; sel.$T t2, p0, t0, #1; div.$T t2, t2, t1; mul.$T o, a, t2"};
inline constexpr Row silu_backward{"silu_backward",
  "neg.$T t0, b; exp.$T t0, t0; add.$T t0, t0, #1; div.$T t0, #1, t0; sub.$T t1, #1, t0; mul.$T t1, t1, b; add.$T t1, t1, #1;"
  "mul.$T t0, t0, t1; mul.$T o, a, t0"};
inline constexpr Row gelu_tanh{"gelu_tanh",
  "mul.$T t0, a, a; mul.$T t0, t0, a; mul.$T t0, t0, #0.044715; add.$T t0, t0, a; mul.$T t0, t0, #0.7978845608028654;"
  "tanh.$T t0, t0; add.$T t0, t0, #1; mul.$T t1, a, #0.5; mul.$T o, t1, t0"};
inline constexpr Row leaky_relu{"leaky_relu", "mul.$T t0, a, x; cmp.gt.$T p0, a, #0; sel.$T o, p0, a, t0", nullptr, nullptr, 1};
inline constexpr Row addcmul{"addcmul", "mul.$T t0, b, x; mul.$T t0, t0, c; add.$T o, a, t0", nullptr, nullptr, 1};
inline constexpr Row addcdiv{"addcdiv", "mul.$T t0, b, x; div.$T t0, t0, c; add.$T o, a, t0", nullptr, nullptr, 1};
inline constexpr Row lerp_low{"lerp_low", "sub.$T t0, b, a; fma.$T o, t0, x, a", nullptr, nullptr, 1};
inline constexpr Row lerp_high{"lerp_high", "sub.$T t0, b, a; mul.$T t0, t0, x; sub.$T o, b, t0", nullptr, nullptr, 1}; // x: 1 - weight
inline constexpr Row lerp_tensor{"lerp_tensor",
  "sub.$T t0, b, a; mul.$T t1, t0, c; add.$T t1, t1, a; sub.$T t2, #1, c; mul.$T t2, t2, t0; sub.$T t2, b, t2;"
  "abs.$T t3, c; cmp.lt.$T p0, t3, #0.5; sel.$T o, p0, t1, t2"};
inline constexpr Row square{"square", "mul.$T o, a, a"};
inline constexpr Row cube{"cube", "mul.$T t0, a, a; mul.$T o, t0, a"};
inline constexpr Row square_reciprocal{"square_reciprocal", "mul.$T t0, a, a; div.$T o, #1, t0"};
inline constexpr Row squared_difference{"squared_difference", "sub.$T t0, a, b; mul.$T o, t0, t0"};
// |a|^x in f64 for f32 and halves; the sign of an odd integer power, and NaN for a negative base otherwise.
inline constexpr Row pow{"pow",
  "cvt.f64.$T t0, a; cvt.f64.$T t1, b; abs.f64 t2, t0; log.f64 t3, t2; mul.f64 t3, t3, t1; exp.f64 t4, t3;"
  "round.floor.f64 t5, t1; mul.f64 t6, t1, #0.5; round.floor.f64 t7, t6; cmp.ne.f64 p0, t7, t6; cmp.eq.f64 p1, t5, t1;"
  "neg.f64 t8, t4; pand p0, p0, p1; sel.f64 t8, p0, t8, t4; sel.f64 t8, p1, t8, #nan;"
  "cmp.lt.f64 p2, t0, #0; sel.f64 t4, p2, t8, t4; cmp.eq.f64 p3, t1, #0; sel.f64 t4, p3, #1, t4;"
  "cmp.eq.f64 p3, t0, #1; sel.f64 t4, p3, #1, t4; cvt.$T.f64 o, t4"};
// clang-format on

}  // namespace emu::rows
