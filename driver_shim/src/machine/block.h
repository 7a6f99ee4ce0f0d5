/* The state of one block while it runs, and what handlers do to it. */
#ifndef EMU_MACHINE_BLOCK_H
#define EMU_MACHINE_BLOCK_H

#include <cstring>
#include <memory>

#include "program.h"

namespace emu::machine {

/* Memory for the vector, predicate and tile registers of one host thread; grows, and is kept between launches.
 * A program never sees what another left: see Layout::varying_length. */
class RegisterFile {
 public:
  std::byte* reserve(size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t bytes_ = 0;
};

struct Tile {
  uint32_t rows, columns, stride; /* stride in elements, rounded up to 64 bytes */
};

class Block {
 public:
  Block(const Program& program, const AddressSpace& space, const uint32_t grid[3], std::span<const std::byte> args,
        const Limits& limits, bool streaming, RegisterFile& file);

  /* False if the block faulted. `ticks`, `unit_ticks` and `memory_bytes` are those of this block. */
  bool run(uint64_t linear_index);

  template <class T>
  T* vector(uint8_t i) {
    return reinterpret_cast<T*>(file_ + program.vector_offset(i));
  }
  uint8_t* predicate(uint8_t i) { return reinterpret_cast<uint8_t*>(file_ + program.predicate_offset(i)); }
  std::byte* tile(uint8_t i) { return file_ + program.tile_offset(i); }
  std::byte* scratch() { return file_ + program.scratch_offset(); }

  void charge(const Step* step, uint64_t lanes) {
    charge_ticks(step, step->fixed_ticks + (lanes * step->lane_quarters + 4 * kLanesPerTick - 1) / (4 * kLanesPerTick));
    if (step->unit == Unit::memory) memory_bytes += lanes * step->bytes;
  }
  void charge_ticks(const Step* step, uint64_t n) {
    ticks += n;
    unit_ticks[static_cast<unsigned>(step->unit)] += n;
  }

  /* Notes that a page may not be accessed so, or cannot be read; `who` begins the sentence. Gives null. */
  const Step* refuse_page(const Step* step, uint64_t address, uint8_t permission, const char* who = "");

  /* Notes the fault and gives null, for a handler to return. */
  [[gnu::format(printf, 5, 6)]] const Step* fail(const Step* step, emu_status status, uint64_t address,
                                                 const char* format, ...);

  const Program& program;
  const AddressSpace& space;
  const std::span<const std::byte> args;
  const Limits& limits;
  const bool streaming; /* stores go past the caches; whoever runs blocks fences at the end */
  const uint32_t grid[3];
  uint32_t index[3] = {};

  uint64_t s[kSRegisters] = {};
  Tile m[kMRegisters] = {};
  uint32_t vl = 0;
  int64_t loop_count[kLoopDepth] = {};

  uint64_t ticks = 0;
  uint64_t unit_ticks[kUnits] = {};
  uint64_t memory_bytes = 0;
  Fault fault;

  /* kStep copies of each uniform operand. */
  alignas(64) std::byte repeated[3][kStep * 8];

 private:
  bool ended_early();

  std::byte* file_;
  uint64_t ticks_before_ = 0; /* of the blocks that were run */
  uint64_t clock_due_;        /* in the same ticks: when the host's clock is read again */
};

}  // namespace emu::machine

#endif
