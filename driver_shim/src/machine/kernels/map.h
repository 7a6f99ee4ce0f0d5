/* Loops over lanes: `map1<F, D, A>` is the Elementwise kernel d = F(a), and so on.
 *
 * The inner loop has a constant trip count, so it vectorises without a remainder; a uniform operand is kStep
 * copies that the pointer does not advance over, so one kernel serves every mix of vectors and uniforms. */
#ifndef EMU_MACHINE_MAP_H
#define EMU_MACHINE_MAP_H

#include "kernels.h"

namespace emu::machine {
namespace {

inline uint32_t step(const Source& source) { return source.uniform ? 0 : kStep; }

template <class F, class D, class A>
void map1(void* destination, const Source* sources, uint32_t lanes) {
  D* d = static_cast<D*>(destination);
  const A* a = static_cast<const A*>(sources[0].data);
  for (; lanes >= kStep; lanes -= kStep, d += kStep, a += step(sources[0])) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < kStep; ++i) d[i] = F::of(a[i]);
  }
#pragma GCC ivdep
  for (uint32_t i = 0; i < lanes; ++i) d[i] = F::of(a[i]);
}

template <class F, class D, class A, class B>
void map2(void* destination, const Source* sources, uint32_t lanes) {
  D* d = static_cast<D*>(destination);
  const A* a = static_cast<const A*>(sources[0].data);
  const B* b = static_cast<const B*>(sources[1].data);
  for (; lanes >= kStep; lanes -= kStep, d += kStep, a += step(sources[0]), b += step(sources[1])) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < kStep; ++i) d[i] = F::of(a[i], b[i]);
  }
#pragma GCC ivdep
  for (uint32_t i = 0; i < lanes; ++i) d[i] = F::of(a[i], b[i]);
}

template <class F, class D, class A, class B, class C>
void map3(void* destination, const Source* sources, uint32_t lanes) {
  D* d = static_cast<D*>(destination);
  const A* a = static_cast<const A*>(sources[0].data);
  const B* b = static_cast<const B*>(sources[1].data);
  const C* c = static_cast<const C*>(sources[2].data);
  for (; lanes >= kStep;
       lanes -= kStep, d += kStep, a += step(sources[0]), b += step(sources[1]), c += step(sources[2])) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < kStep; ++i) d[i] = F::of(a[i], b[i], c[i]);
  }
#pragma GCC ivdep
  for (uint32_t i = 0; i < lanes; ++i) d[i] = F::of(a[i], b[i], c[i]);
}

}  // namespace
}  // namespace emu::machine

#endif
