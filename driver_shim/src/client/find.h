/* Which devices there are: nodes emuN in $EMU_DEVICE_DIR or /dev/emu, or a private emud. */
#ifndef EMU_CLIENT_FIND_H
#define EMU_CLIENT_FIND_H

#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"
#include "error.h"

namespace emu::client {

struct Found {
  std::vector<std::string> nodes; // that this process may open, by number
  bool start_private = false;     // there is no node, and an emud to start
  std::optional<Error> why_none;  // set when there is no device
  size_t count() const { return start_private ? 1 : nodes.size(); }
};

Found find_devices(); // opens nothing

Descriptor connect_node(const std::string& path); // throws PERMISSION or NO_DEVICE, with the cause

/* spawn.cpp */
std::string emud_path();    // of this wheel, beside this library; "" if there is none
Descriptor start_private(); // socket to a new emud, which ends with this process; throws

} // namespace emu::client

#endif
