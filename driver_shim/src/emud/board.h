/* What the devices of one emud share. */
#ifndef EMU_BOARD_H
#define EMU_BOARD_H

#include <vector>

#include "fence.h"
#include "links.h"
#include "ring.h"
#include "token.h"

namespace emu {

class Context;
class Device;

struct Board {
  explicit Board(uint32_t devices) : links(devices) {}

  const uint64_t started_ns = monotonic_ns();
  Fences fences;
  Links links;
  std::vector<Device*> devices;
  Tokens<Context> peers; // contexts that others of their process may copy to and from
};

} // namespace emu

#endif
