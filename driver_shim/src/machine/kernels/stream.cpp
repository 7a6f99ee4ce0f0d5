/* Stores that go past the caches, for launches that write more than caches hold: no line is read only to be
 * overwritten, and what the next blocks need isn't pushed out. */
#include "kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace emu::machine {
namespace EMU_LEVEL {

#if defined(__AVX512F__)

void stream(void* destination, const void* source, size_t lines) {
  __m512i* to = static_cast<__m512i*>(destination);
  const __m512i* from = static_cast<const __m512i*>(source);
  for (size_t i = 0; i < lines; ++i) _mm512_stream_si512(to + i, _mm512_load_si512(from + i));
}

void stream_fence() { _mm_sfence(); }

#elif defined(__AVX2__)

void stream(void* destination, const void* source, size_t lines) {
  __m256i* to = static_cast<__m256i*>(destination);
  const __m256i* from = static_cast<const __m256i*>(source);
  for (size_t i = 0; i < 2 * lines; ++i) _mm256_stream_si256(to + i, _mm256_load_si256(from + i));
}

void stream_fence() { _mm_sfence(); }

#else

void stream(void* destination, const void* source, size_t lines) {
  __builtin_memcpy(destination, source, lines * kLine);
}

void stream_fence() {}

#endif

}  // namespace EMU_LEVEL
}  // namespace emu::machine
