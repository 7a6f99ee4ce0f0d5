#include "verify.h"

#include <array>
#include <cstring>
#include <map>

namespace emu::machine {
namespace {

std::string number(uint64_t n) { return std::to_string(n); }

std::string text_of(Register r) { return letter_of(r.register_class) + number(r.index); }

std::string type_name(uint8_t code) {
  const TypeInfo* info = find_type(code);
  return info != nullptr ? info->name : code == 0 ? "nothing" : "type " + number(code);
}

std::string names_of(uint32_t mask) {
  std::string out;
  if ((mask & 1u) != 0) out = "no type";
  for (const TypeInfo& info : kTypes)
    if ((mask >> static_cast<unsigned>(info.type) & 1u) != 0) out += (out.empty() ? "" : " ") + std::string(info.name);
  return out;
}

std::string classes_of(uint8_t classes) {
  std::string out;
  for (const uint8_t one : {kClassS, kClassV, kClassP, kClassM})
    if ((classes & one) != 0)
      out += (out.empty() ? "" : " or ") + std::string(1, letter_of(one)) + "0.." + letter_of(one) +
             number(registers_of(one) - 1);
  return out;
}

bool has_type(uint32_t mask, uint8_t code) { return code < 32 && (mask >> code & 1u) != 0; }

/* Fields of one instruction by itself. Empty if it is well formed. */
class FieldCheck {
 public:
  FieldCheck(const Instruction& instruction, const OpInfo& info) : in_(instruction), info_(info) {}

  std::string operator()() const {
    if (!has_type(info_.types, in_.type))
      return "type: expected " + names_of(info_.types) + ", got " + type_name(in_.type);
    if (!has_type(info_.types2, in_.type2))
      return "second type: expected " + names_of(info_.types2) + ", got " + type_name(in_.type2);
    if (in_.mode >= (info_.mode_count != 0 ? info_.mode_count : 1))
      return "mode: expected " + modes() + ", got number " + number(in_.mode);
    if (in_.reserved != 0) return "reserved bits: expected 0, got " + number(in_.reserved);
    if (std::string reason = mask(); !reason.empty()) return reason;
    bool has_imm = false;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (std::string reason = operand(slot); !reason.empty()) return "operand " + number(slot + 1) + ": " + reason;
      has_imm = has_imm || is_imm(slot);
    }
    if (!has_imm && in_.imm != 0) return "immediate: expected none, got " + number(in_.imm);
    if (std::string reason = uniform_destination(); !reason.empty()) return reason;
    return has_imm ? immediate() : "";
  }

 private:
  bool is_imm(uint32_t slot) const { return slot < info_.operand_count && info_.operands[slot].form != Form::reg; }

  std::string modes() const {
    if (info_.mode_count == 0) return "none";
    std::string out;
    for (uint8_t i = 0; i < info_.mode_count; ++i) out += (i != 0 ? " " : "") + std::string(info_.modes[i]);
    return out;
  }

  std::string mask() const {
    if (in_.mask == kUnused) return "";
    if (!info_.masked) return "mask: expected none on `" + std::string(info_.name) + "`, got one";
    const uint8_t index = in_.mask & static_cast<uint8_t>(~kMaskNegated);
    return index < kPRegisters ? ""
                               : "mask: expected p0..p" + number(kPRegisters - 1) + ", got bits " + number(in_.mask);
  }

  std::string operand(uint32_t slot) const {
    const uint8_t byte = in_.operands[slot];
    if (slot >= info_.operand_count || is_imm(slot))
      return byte == kUnused ? "" : "expected an unused slot (255), got " + number(byte);
    const uint8_t classes = info_.operands[slot].classes;
    const Register r = decode(byte);
    if ((r.register_class & classes) == 0 || r.index >= registers_of(r.register_class))
      return "expected " + classes_of(classes) + ", got " + (byte == kUnused ? "none" : text_of(r));
    return "";
  }

  std::string uniform_destination() const {
    if (info_.operand_count == 0 || info_.operands[0].form != Form::reg) return "";
    const uint8_t choice = info_.operands[0].classes;
    if (!info_.operands[0].destination || choice == kClassS || decode(in_.operands[0]).register_class != kClassS)
      return "";
    for (uint32_t slot = 1; slot < info_.operand_count; ++slot)
      if (!is_imm(slot) && decode(in_.operands[slot]).register_class != kClassS)
        return "operand " + number(slot + 1) + ": expected a uniform register, as the destination is one, got " +
               text_of(decode(in_.operands[slot]));
    return "";
  }

  std::string immediate() const {
    switch (info_.op) {
      case Op::block:
      case Op::blocks: return in_.imm <= 2 ? "" : "axis: expected 0, 1 or 2, got " + number(in_.imm);
      case Op::const_: return constant();
      default: return ""; /* arg and labels need the program: see Verifier */
    }
  }

  std::string constant() const {
    const TypeInfo& type = *find_type(in_.type);
    if (type.kind == Kind::floating) {
      double value;
      std::memcpy(&value, &in_.imm, sizeof value);
      return value == value || in_.imm == 0x7ff8000000000000u ? ""
                                                              : "immediate: expected the canonical NaN, got another";
    }
    const int64_t value = static_cast<int64_t>(in_.imm);
    const unsigned bits = type.bytes * 8;
    const bool is_signed = type.kind == Kind::signed_integer;
    const int64_t least = is_signed ? -(int64_t{1} << (bits - 2)) * 2 : 0;
    const int64_t most = is_signed ? ~least : (int64_t{1} << bits) - 1;
    if (value >= least && value <= most) return "";
    return "immediate: expected " + std::to_string(least) + " to " + std::to_string(most) + ", got " +
           std::to_string(value);
  }

  const Instruction& in_;
  const OpInfo& info_;
};

/* What is known of registers at a point of the program. 0 is: not readable. */
struct Known {
  std::array<uint8_t, kVRegisters> vector{};
  std::array<uint8_t, kPRegisters> predicate{};
  std::array<uint8_t, kMRegisters> tile{};

  void meet(const Known& other) {
    meet_array(vector, other.vector);
    meet_array(predicate, other.predicate);
    meet_array(tile, other.tile);
  }

  uint8_t& of(Register r) {
    return r.register_class == kClassV   ? vector[r.index]
           : r.register_class == kClassP ? predicate[r.index]
                                         : tile[r.index];
  }

 private:
  template <size_t n>
  static void meet_array(std::array<uint8_t, n>& mine, const std::array<uint8_t, n>& other) {
    for (size_t i = 0; i < n; ++i)
      if (mine[i] != other[i]) mine[i] = 0;
  }
};

struct Loop {
  uint32_t start;
  uint8_t counter;
  Known entry; /* holds at the head, however often the body ran */
};

constexpr uint8_t kWritten = 1; /* a predicate's only type */

class Verifier {
 public:
  Verifier(const Binary& binary, Layout& layout) : binary_(binary), code_(binary.code), layout_(layout) {}

  std::optional<Refusal> operator()() {
    layout_.loop_match.assign(code_.size(), 0);
    loop_of_.assign(code_.size(), 0);
    if (code_.empty()) return Refusal{0, "expected `exit` as the last instruction, got an empty program"};
    for (at_ = 0; at_ < code_.size(); ++at_)
      if (std::string reason = fields(); !reason.empty()) return Refusal{at_, name() + reason};
    if (std::optional<Refusal> refusal = match_loops()) return refusal;
    for (at_ = 0; at_ < code_.size(); ++at_)
      if (std::string reason = flow(); !reason.empty()) return Refusal{at_, name() + reason};
    return std::nullopt;
  }

 private:
  Op op() const { return static_cast<Op>(code_[at_].op); }

  std::string name() const {
    const OpInfo* info = find_op(code_[at_].op);
    return info != nullptr ? "`" + std::string(info->name) + "`: " : "";
  }

  std::string fields() {
    const Instruction& in = code_[at_];
    const OpInfo* info = find_op(in.op);
    if (info == nullptr) return "operation: expected one of the instruction set, got number " + number(in.op);
    if (std::string reason = FieldCheck(in, *info)(); !reason.empty()) return reason;
    const bool last = at_ + 1 == code_.size();
    if (info->op == Op::exit && !last) return "expected only as the last instruction, got more after it";
    if (info->op != Op::exit && last) return "expected `exit` as the last instruction, got this";
    if (info->op == Op::arg) return argument(in);
    return tiles_differ(in, *info);
  }

  static std::string tiles_differ(const Instruction& in, const OpInfo& info) {
    if (info.operand_count == 0 || info.operands[0].classes != kClassM) return "";
    for (uint32_t slot = 1; slot < info.operand_count; ++slot)
      if (in.operands[slot] == in.operands[0])
        return "expected a destination other than the operands, got " + text_of(decode(in.operands[0])) + " twice";
    return "";
  }

  std::string argument(const Instruction& in) const {
    const uint32_t bytes = find_type(in.type)->bytes;
    if (in.imm % bytes != 0) return "offset: expected a multiple of " + number(bytes) + ", got " + number(in.imm);
    if (in.imm > binary_.header.args || binary_.header.args - in.imm < bytes)
      return "offset: expected " + number(bytes) + " bytes inside the " + number(binary_.header.args) +
             " of .args, got offset " + number(in.imm);
    return "";
  }

  /* Pairs each loop with its end, and says for each instruction which loop's body it is in (0: none, else the
   * index of the `loop` plus one; a `loop` is outside of itself, its `end` inside). */
  std::optional<Refusal> match_loops() {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < code_.size(); ++i) {
      loop_of_[i] = open.empty() ? 0 : open.back() + 1;
      if (static_cast<Op>(code_[i].op) == Op::loop) {
        if (open.size() == kLoopDepth)
          return Refusal{i,
                         "`loop`: expected at most " + number(kLoopDepth) + " loops inside each other, got one more"};
        open.push_back(i);
      } else if (static_cast<Op>(code_[i].op) == Op::end) {
        if (open.empty()) return Refusal{i, "`end`: expected an open `loop`, got none"};
        layout_.loop_match[i] = open.back();
        layout_.loop_match[open.back()] = i;
        open.pop_back();
      }
    }
    if (!open.empty()) return Refusal{open.back(), "`loop`: expected an `end`, got none"};
    return std::nullopt;
  }

  std::string flow() {
    if (const auto jump = arriving_.find(at_); jump != arriving_.end()) known_.meet(jump->second);
    switch (op()) {
      case Op::loop: return enter_loop();
      case Op::end: leave_loop(); return "";
      case Op::skipz: return skip();
      case Op::setvl:
        if (touched_ || !loops_.empty()) layout_.varying_length = true;
        return registers();
      default: return registers();
    }
  }

  std::string enter_loop() {
    if (std::string reason = registers(); !reason.empty()) return reason;
    const uint32_t end = layout_.loop_match[at_];
    /* At the head, a register that the body writes is known only if each write is of the type it has now. */
    for (uint32_t i = at_ + 1; i < end; ++i) {
      const OpInfo& info = *find_op(code_[i].op);
      if (info.operand_count == 0 || !info.operands[0].destination) continue;
      const Register d = decode(code_[i].operands[0]);
      if (d.register_class == kClassS) continue;
      if (known_.of(d) != written_type(code_[i], d)) known_.of(d) = 0;
    }
    loops_.push_back({at_, decode(code_[at_].operands[0]).index, known_});
    return "";
  }

  void leave_loop() {
    known_.meet(loops_.back().entry);
    loops_.pop_back();
  }

  std::string skip() {
    const uint64_t label = code_[at_].imm;
    if (label <= at_ || label >= code_.size())
      return "label: expected an instruction from " + number(at_ + 1) + " to " + number(code_.size() - 1) + ", got " +
             number(label);
    if (loop_of_[label] != loop_of_[at_])
      return "label: expected an instruction of the same loop body, got " + number(label) + ", which is in another";
    const auto [jump, is_new] = arriving_.try_emplace(static_cast<uint32_t>(label), known_);
    if (!is_new) jump->second.meet(known_);
    return "";
  }

  static uint8_t written_type(const Instruction& in, Register d) {
    return d.register_class == kClassP ? kWritten : in.type;
  }

  std::string registers() {
    const Instruction& in = code_[at_];
    const OpInfo& info = *find_op(in.op);
    if (in.mask != kUnused)
      if (std::string reason = read({kClassP, static_cast<uint8_t>(in.mask & 7)}, kWritten); !reason.empty())
        return "mask: " + reason;
    for (uint32_t slot = 0; slot < info.operand_count; ++slot) {
      if (info.operands[slot].form != Form::reg) continue;
      const Register r = decode(in.operands[slot]);
      if (r.register_class == kClassS) continue;
      const bool destination = info.operands[slot].destination;
      const bool reads = !destination || accumulates(info.op) || in.mask != kUnused;
      const uint8_t type = r.register_class == kClassP ? kWritten : read_type(info, in, slot);
      note(r, destination ? in.type : type);
      if (!reads) continue;
      if (std::string reason = read(r, destination ? in.type : type); !reason.empty())
        return "operand " + number(slot + 1) + ": " + reason;
    }
    if (accumulates(info.op) && in.type2 != 0) layout_.widened_tiles = true;
    return write(info, in);
  }

  static bool accumulates(Op op) { return op == Op::mma || op == Op::mmaw || op == Op::mmai; }

  std::string read(Register r, uint8_t type) {
    const uint8_t held = known_.of(r);
    if (held == type) return "";
    if (r.register_class == kClassP)
      return "expected " + text_of(r) + " written on every path, got one where it is not";
    if (held == 0)
      return "expected " + text_of(r) + " to hold " + type_name(type) + " on every path, got one where it does not";
    return "expected " + text_of(r) + " to hold " + type_name(type) + ", got " + type_name(held);
  }

  std::string write(const OpInfo& info, const Instruction& in) {
    if (info.operand_count == 0 || !info.operands[0].destination) return "";
    const Register d = decode(in.operands[0]);
    if (d.register_class != kClassS) {
      known_.of(d) = written_type(in, d);
      touched_ = touched_ || d.register_class != kClassM;
      return "";
    }
    for (const Loop& loop : loops_)
      if (loop.counter == d.index)
        return "operand 1: expected a register other than s" + number(d.index) + ", the counter of the loop at " +
               number(loop.start);
    return "";
  }

  void note(Register r, uint8_t type) {
    if (r.register_class == kClassP) {
      layout_.predicate[r.index] = true;
      return;
    }
    uint8_t& widest = r.register_class == kClassV ? layout_.vector_bytes[r.index] : layout_.tile_bytes[r.index];
    const uint8_t bytes = static_cast<uint8_t>(find_type(type)->bytes);
    if (bytes > widest) widest = bytes;
  }

  const Binary& binary_;
  const std::vector<Instruction>& code_;
  Layout& layout_;
  uint32_t at_ = 0;
  Known known_;
  std::vector<Loop> loops_;
  std::vector<uint32_t> loop_of_;
  std::map<uint32_t, Known> arriving_; /* by label: what all skips to it know */
  bool touched_ = false;
};

}  // namespace

uint8_t read_type(const OpInfo& info, const Instruction& in, uint32_t slot) {
  const uint8_t reads = info.operands[slot].reads;
  return reads == kReadsType ? in.type : reads == kReadsType2 ? in.type2 : reads;
}

std::optional<Refusal> verify(const Binary& binary, Layout& layout) { return Verifier(binary, layout)(); }

}  // namespace emu::machine
