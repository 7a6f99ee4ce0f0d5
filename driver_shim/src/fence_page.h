/* What emud tells one holder of a fence, in a page that the two share.
 *
 * Each holder has a page of its own: what it scribbles there misleads nobody else. emud wakes on `value` after it has
 * changed anything, if the holder has raised `waiters`. */
#ifndef EMU_FENCE_PAGE_H
#define EMU_FENCE_PAGE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace emu {

struct FencePage {
  // Written by emud.
  std::atomic<uint64_t> value;
  std::atomic<uint32_t> broken; // 1: `cause` says why
  char cause[192];
  // Written by the client.
  alignas(64) std::atomic<uint32_t> waiters;
};
static_assert(sizeof(FencePage) == 320 && offsetof(FencePage, waiters) == 256);

constexpr size_t kFencePageBytes = 4096;

} // namespace emu

#endif
