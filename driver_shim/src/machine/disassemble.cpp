/* Binary to text. What it prints assembles to the same bytes. */
#include <cstring>
#include <set>

#include "decimal.h"
#include "encoding.h"
#include "machine.h"
#include "verify.h"

namespace emu::machine {
namespace {

std::string register_text(uint8_t operand) {
  const Register r = decode(operand);
  return letter_of(r.register_class) + std::to_string(r.index);
}

std::string immediate_text(const Instruction& in, const OpInfo& info) {
  if (info.op == Op::const_ && find_type(in.type)->kind == Kind::floating) {
    double value;
    std::memcpy(&value, &in.imm, sizeof value);
    return decimal_text(value);
  }
  return std::to_string(static_cast<int64_t>(in.imm));
}

std::string line_of(const Instruction& in) {
  const OpInfo& info = *find_op(in.op);
  std::string out = "    ";
  if (in.mask != kUnused) {
    out += (in.mask & kMaskNegated) != 0 ? "@!p" : "@p";
    out += std::to_string(in.mask & 7) + " ";
  }
  out += info.name;
  if (info.mode_count != 0) out += std::string(".") + info.modes[in.mode];
  for (const uint8_t type : {in.type, in.type2})
    if (type != 0) out += std::string(".") + find_type(type)->name;
  for (uint32_t slot = 0; slot < info.operand_count; ++slot) {
    out += slot == 0 ? " " : ", ";
    switch (info.operands[slot].form) {
      case Form::imm: out += immediate_text(in, info); break;
      case Form::label: out += "L" + std::to_string(in.imm); break;
      default: out += register_text(in.operands[slot]);
    }
  }
  return out + "\n";
}

}  // namespace

std::optional<std::string> disassemble(std::span<const std::byte> bytes, std::string& why) {
  const std::optional<Binary> binary = split(bytes, why);
  if (!binary) return std::nullopt;
  Layout layout;
  if (const auto refusal = verify(*binary, layout)) {
    why = "instruction " + std::to_string(refusal->instruction) + ": " + refusal->reason;
    return std::nullopt;
  }
  std::set<uint64_t> targets;
  for (const Instruction& in : binary->code)
    if (static_cast<Op>(in.op) == Op::skipz) targets.insert(in.imm);
  const Header& header = binary->header;
  std::string out;
  if (header.name[0] != 0) out += ".program " + std::string(header.name) + "\n";
  out += ".lanes " + std::to_string(header.lanes) + "\n.args " + std::to_string(header.args) + "\n";
  for (uint64_t i = 0; i < binary->code.size(); ++i) {
    if (targets.contains(i)) out += "L" + std::to_string(i) + ":\n";
    out += line_of(binary->code[i]);
  }
  return out;
}

}  // namespace emu::machine
