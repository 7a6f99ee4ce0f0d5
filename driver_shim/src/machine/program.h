/* A verified program, decoded for the interpreter: one Step an instruction, with all that can be known before it
 * runs: its handler, its kernel, where its registers lie, what it costs. */
#ifndef EMU_MACHINE_PROGRAM_H
#define EMU_MACHINE_PROGRAM_H

#include <vector>

#include "encoding.h"
#include "kernels/kernels.h"
#include "machine.h"
#include "verify.h"

namespace emu::machine {

class Block;
struct Step;

/* Does one instruction and returns the next, or null when the block is done or has a fault. */
using Handler = const Step* (*)(Block&, const Step*);

/* Whose busy time an instruction counts as. */
enum class Unit : uint8_t { vector, matrix, memory };
constexpr uint32_t kUnits = 3;

struct Step {
  Handler run;
  union {
    Elementwise elementwise;
    Reduction reduction;
    MultiplyAdd multiply_add;
  };
  uint64_t imm; /* as encoded; for const, mov's bits in the type; for loop and end, the match's index */
  const OpInfo* info;
  uint32_t index;
  uint32_t fixed_ticks;
  uint32_t lane_quarters; /* quarter elements a lane counts as: see machine.toml */
  Unit unit;
  Kind kind;
  uint8_t bytes;                    /* of an element of the destination, or of what is stored */
  uint8_t source_bytes[kSlots - 1]; /* of an element of each operand after the first */
  uint8_t mode;
  uint8_t mask;
  uint8_t depth;   /* loops around a loop or its end */
  uint8_t sources; /* operands after the destination */
  uint8_t vectors; /* bit i: operand i is a vector register */
  uint8_t predicates;
  uint8_t reg[kSlots];
};

class Program {
 public:
  Program(const Binary&, const Layout&, Level);

  const Step* first() const { return steps_.data(); }
  const Step* at(uint64_t index) const { return steps_.data() + index; }
  const char* name() const { return name_; }
  uint32_t lanes() const { return lanes_; }
  uint32_t args() const { return args_; }
  bool ordered() const { return ordered_; } /* blocks run one after another */
  const Kernels& kernels() const { return kernels_; }

  /* Places in a register file, 64-byte aligned. What `clear_bytes` covers is zeroed before each block. */
  uint32_t vector_offset(uint8_t i) const { return vector_[i]; }
  uint32_t predicate_offset(uint8_t i) const { return predicate_[i]; }
  uint32_t tile_offset(uint8_t i) const { return tile_[i]; }
  uint32_t scratch_offset() const { return scratch_; }
  uint32_t file_bytes() const { return file_bytes_; }
  uint32_t clear_bytes() const { return clear_bytes_; }

 private:
  void place(const Layout&);

  const Kernels& kernels_;
  char name_[64];
  uint32_t lanes_, args_;
  bool ordered_ = false;
  uint32_t vector_[kVRegisters] = {}, predicate_[kPRegisters] = {}, tile_[kMRegisters] = {};
  uint32_t scratch_ = 0, file_bytes_ = 0, clear_bytes_ = 0;
  std::vector<Step> steps_;
};

/* Handlers by operation; null for one of another file. */
Handler control_handler(Op);
Handler vector_handler(Op, bool uniform_destination);
Handler memory_handler(Op);
Handler tile_handler(Op);

const Kernels& kernels_of(Level);

}  // namespace emu::machine

#endif
