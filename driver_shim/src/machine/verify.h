/* The verifier: what it lets through, the interpreter runs without looking again.
 *
 * It refuses
 *   - an operation, type, mode, mask, register or immediate that isa.toml does not allow there, and bits set in
 *     fields that the operation does not use;
 *   - a uniform destination with a vector operand; a tile made of itself;
 *   - a vector, predicate or tile register read before it is written on every path, or read as another type;
 *   - loops that do not balance or nest too deep, a loop counter written inside its loop;
 *   - a label that leads backward, out of its loop body or into another, or past the end;
 *   - an `exit` that is missing, or not last; an argument outside `.args` or misaligned.
 * Left for run time: addresses, tile shapes, and the tick budget. */
#ifndef EMU_MACHINE_VERIFY_H
#define EMU_MACHINE_VERIFY_H

#include <optional>
#include <string>
#include <vector>

#include "encoding.h"

namespace emu::machine {

struct Refusal {
  uint32_t instruction;
  std::string reason; /* expected against got */
};

/* What the interpreter needs to know of a verified program. */
struct Layout {
  uint8_t vector_bytes[kVRegisters] = {}; /* widest element that each holds; 0: not used */
  uint8_t tile_bytes[kMRegisters] = {};
  bool predicate[kPRegisters] = {};
  bool widened_tiles = false;       /* a product whose operands are narrower than its sums */
  bool varying_length = false;      /* VL changes after a vector was written: lanes may be read that never were */
  std::vector<uint32_t> loop_match; /* index of the `end` of a `loop` and the reverse; else 0 */
};

/* Type as which the operation reads a vector, tile or repeated uniform operand. */
uint8_t read_type(const OpInfo&, const Instruction&, uint32_t slot);

std::optional<Refusal> verify(const Binary&, Layout&);

}  // namespace emu::machine

#endif
