// From program text to a launch: one cache of modules for each device, by key.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime.h"

namespace emu {

// What a program depends on, packed; two words are enough for every kind of program here.
struct ProgramKey {
  const void* kind;  // address of the row or of another constant that names the kind
  uint64_t first;
  uint64_t second;
  bool operator==(const ProgramKey& other) const {
    return kind == other.kind && first == other.first && second == other.second;
  }
};

using Grid = std::array<uint32_t, 3>;

// Launches on the current stream of `device`. `write` makes the text when the program is not known yet.
void launch(int device, const ProgramKey& key, const std::function<std::string()>& write, const Grid& grid,
            const uint64_t* args, int slots);

// Number of blocks as the machine takes it; raises when the tensor is too large for one launch.
uint32_t blocks(int64_t elements, int64_t per_block);

}  // namespace emu
