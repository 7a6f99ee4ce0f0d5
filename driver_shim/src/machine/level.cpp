#include "program.h"

namespace emu::machine {
namespace {

#define EMU_KERNELS(level)                                                                               \
  {{level::arithmetic, level::integer, level::exponential, level::trigonometric, level::special,       \
    level::conversion, level::scan},                                                                   \
   level::reduction,                                                                                   \
   level::multiply_add,                                                                                \
   level::stream,                                                                                      \
   level::stream_fence}
constexpr Kernels kBaseline = EMU_KERNELS(baseline);
#if defined(__x86_64__)
constexpr Kernels kAvx2 = EMU_KERNELS(avx2);
constexpr Kernels kAvx512 = EMU_KERNELS(avx512);
#endif
#undef EMU_KERNELS

}  // namespace

Level best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return Level::avx512;
  if (avx2) return Level::avx2;
#endif
  return Level::baseline;
}

/* A level that the host lacks gives the best that it has. */
const Kernels& kernels_of(Level level) {
#if defined(__x86_64__)
  const Level best = best_level();
  const Level use = level < best ? level : best;
  if (use == Level::avx512) return kAvx512;
  if (use == Level::avx2) return kAvx2;
#else
  (void)level;
#endif
  return kBaseline;
}

}  // namespace emu::machine
