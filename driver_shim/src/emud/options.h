/* The command line of emud. */
#ifndef EMU_OPTIONS_H
#define EMU_OPTIONS_H

#include <cstdint>
#include <string>

#include "emu_constants.h"

namespace emu {

struct Options {
  std::string first_node;        // DIR/emuN of the first device; the others count up from it
  std::string group;             // of the nodes; "" leaves it
  int private_fd = -1;           // socket to the one client of a private emud
  uint32_t devices = 1;
  uint64_t memory_bytes = 0;     // of each device
  uint64_t tick_budget = 0;      // of each launch
  uint64_t launch_milliseconds = 0; // of each launch, on the host
  uint64_t handshake_seconds = 0; // for a client's first word
  unsigned threads = 0;
  uint32_t interface_version = 0; // that the handshake names
  uint32_t power_mode = 0;       // index of constants::kPowerModes
  double ambient_celsius = 0;
  const constants::Stepping* stepping = &constants::kSteppings[0];
  bool foreground = false;
  std::string log;               // file; "" is stderr in the foreground, else nowhere
  std::string state_dir;         // folder of what outlives emud; "" for none

  bool is_private() const { return private_fd >= 0; }
  std::string node(uint32_t device) const; // "" for a private emud
  std::string state_of(uint32_t device) const; // its folder in `state_dir`, or ""
};

/* Prints and exits for --help, --version (0) and for bad input (2). */
Options parse_options(int argc, char** argv);

} // namespace emu

#endif
