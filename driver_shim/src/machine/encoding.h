/* The binary form of a program: the header and the instructions of isa.toml, as they lie in memory. */
#ifndef EMU_MACHINE_ENCODING_H
#define EMU_MACHINE_ENCODING_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa_tables.h"

namespace emu::machine {

struct Header {
  uint32_t magic, version, lanes, args, instructions, reserved;
  char name[64];
};
static_assert(sizeof(Header) == kHeaderBytes);

struct Instruction {
  uint16_t op;
  uint8_t type, type2;
  uint8_t operands[kSlots];
  uint8_t mask, mode;
  uint32_t reserved;
  uint64_t imm;
};
static_assert(sizeof(Instruction) == kInstructionBytes);

constexpr uint8_t kUnused = 0xff;

/* A register as an operand byte. */
struct Register {
  uint8_t register_class; /* kClassS, kClassV, kClassP or kClassM */
  uint8_t index;
};
inline uint8_t encode(Register r) {
  const unsigned order = r.register_class == kClassS   ? 0
                         : r.register_class == kClassV ? 1
                         : r.register_class == kClassP ? 2
                                                       : 3;
  return static_cast<uint8_t>(order << 6 | r.index);
}
inline Register decode(uint8_t operand) {
  return {static_cast<uint8_t>(1u << (operand >> 6)), static_cast<uint8_t>(operand & 63)};
}
inline uint32_t registers_of(uint8_t register_class) {
  switch (register_class) {
    case kClassS: return kSRegisters;
    case kClassV: return kVRegisters;
    case kClassP: return kPRegisters;
    default: return kMRegisters;
  }
}
inline char letter_of(uint8_t register_class) {
  return register_class == kClassS ? 's' : register_class == kClassV ? 'v' : register_class == kClassP ? 'p' : 'm';
}

constexpr uint8_t kMaskNegated = 0x80;

/* Null for a number that is no operation, or no type. */
const OpInfo* find_op(uint16_t code);
const OpInfo* find_op(std::string_view name);
const TypeInfo* find_type(uint8_t code);
const TypeInfo* find_type(std::string_view name);

struct Binary {
  Header header;
  std::vector<Instruction> code;
};

/* Splits a binary; refuses a wrong size or header. Says nothing about the instructions: see verify.h. */
std::optional<Binary> split(std::span<const std::byte> bytes, std::string& why);
std::vector<std::byte> join(const Binary&);

bool is_name_character(char);

}  // namespace emu::machine

#endif
