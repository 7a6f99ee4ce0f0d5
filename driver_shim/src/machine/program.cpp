#include "program.h"

#include <cstring>

namespace emu::machine {
namespace {

/* Registers are parted by a few cache lines, so that those of a power of two bytes don't meet in the same sets. */
constexpr uint32_t kGap = 192;

uint32_t tile_bytes(uint32_t element) { return kTileRows * kTileColumns * element; }

uint32_t element_bytes(uint8_t type) {
  const TypeInfo* info = find_type(type);
  return info != nullptr ? info->bytes : 0;
}

Unit unit_of(CostClass cost) {
  switch (cost) {
    case CostClass::matrix: return Unit::matrix;
    case CostClass::memory: return Unit::memory;
    default: return Unit::vector;
  }
}

/* Quarters of a 4-byte element that one lane counts as: per_lane * weight * 4 of machine.toml. */
uint32_t lane_quarters(const OpInfo& info, const Instruction& in) {
  const CostRule& rule = kCosts[static_cast<unsigned>(info.cost)];
  uint32_t bytes = element_bytes(in.type);
  bool f64 = static_cast<Type>(in.type) == Type::f64;
  if (in.type2 != 0) {
    bytes = bytes > element_bytes(in.type2) ? bytes : element_bytes(in.type2);
    f64 = f64 || static_cast<Type>(in.type2) == Type::f64;
  }
  if (bytes < 4 && (info.cost != CostClass::memory || bytes == 0)) bytes = 4;
  const uint32_t quarters = bytes * (f64 && rule.f64_slow ? kF64Slow : 1);
  return info.cost == CostClass::matrix ? quarters : rule.per_lane * quarters;
}

Elementwise find(const Kernels& kernels, Op op, Type type, Type from, uint8_t mode) {
  for (const Finder finder : kernels.finders)
    if (const Elementwise found = finder(op, type, from, mode)) return found;
  return nullptr;
}

uint64_t bits_of_constant(uint8_t type, uint64_t imm, const Kernels& kernels) {
  const TypeInfo& info = *find_type(type);
  if (info.kind != Kind::floating) return imm;
  uint64_t out = 0;
  const Source source{&imm, true};
  find(kernels, Op::cvt, info.type, Type::f64, kCvtEven)(&out, &source, 1);
  return out;
}

Handler handler_of(Op op, bool uniform_destination) {
  if (const Handler h = control_handler(op)) return h;
  if (const Handler h = memory_handler(op)) return h;
  if (const Handler h = tile_handler(op)) return h;
  return vector_handler(op, uniform_destination);
}

/* What an atomic of this mode makes of the element and the lane. */
Op combination(uint8_t mode) {
  static_assert(kRedAdd == kAtomAdd && kRedMin == kAtomMin && kRedMax == kAtomMax && kRedAnd == kAtomSwap);
  constexpr Op kByMode[] = {Op::add, Op::min, Op::max, Op::and_, Op::or_, Op::xor_};
  return kByMode[mode];
}

void choose_kernel(Step& step, const Instruction& in, const Kernels& kernels) {
  const Op op = step.info->op;
  const Type type = static_cast<Type>(in.type), type2 = static_cast<Type>(in.type2);
  switch (op) {
    case Op::mma: step.multiply_add = kernels.multiply_add(type); return;
    case Op::mmaw:
    case Op::mmai: step.elementwise = find(kernels, Op::cvt, type, type2, kCvtEven); return;
    case Op::red: step.elementwise = find(kernels, combination(in.mode), type, type2, 0); return;
    case Op::atom: {
      const Op what = in.mode == kAtomSwap ? Op::mov : combination(in.mode);
      step.elementwise = find(kernels, what, type, type2, 0);
      return;
    }
    default: break;
  }
  if (const Reduction reduction = kernels.reduction(op, type, in.mode)) step.reduction = reduction;
  else step.elementwise = find(kernels, op, type, type2, in.mode);
}

Step step_of(const Instruction& in, uint32_t index, const Kernels& kernels) {
  Step step{};
  step.info = find_op(in.op);
  step.index = index;
  step.imm = static_cast<Op>(in.op) == Op::const_ ? bits_of_constant(in.type, in.imm, kernels) : in.imm;
  step.bytes = static_cast<uint8_t>(element_bytes(in.type));
  if (const TypeInfo* type = find_type(in.type)) step.kind = type->kind;
  step.mode = in.mode;
  step.mask = in.mask;
  bool all_uniform = true;
  for (uint32_t slot = 0; slot < step.info->operand_count; ++slot) {
    if (step.info->operands[slot].form != Form::reg) continue;
    const Register r = decode(in.operands[slot]);
    step.reg[slot] = r.index;
    if (r.register_class == kClassV) step.vectors |= static_cast<uint8_t>(1u << slot);
    if (r.register_class == kClassP) step.predicates |= static_cast<uint8_t>(1u << slot);
    if (slot > 0) {
      step.source_bytes[step.sources++] = static_cast<uint8_t>(element_bytes(read_type(*step.info, in, slot)));
    }
    all_uniform = all_uniform && r.register_class == kClassS;
  }
  const CostRule& rule = kCosts[static_cast<unsigned>(step.info->cost)];
  step.unit = unit_of(step.info->cost);
  step.fixed_ticks = rule.fixed;
  step.lane_quarters = lane_quarters(*step.info, in);
  if (all_uniform) { /* acts once: all of its cost is known */
    step.fixed_ticks += (step.lane_quarters + 4 * kLanesPerTick - 1) / (4 * kLanesPerTick);
    step.lane_quarters = 0;
  }
  const bool uniform = step.info->operand_count > 0 && step.info->operands[0].form == Form::reg &&
                       decode(in.operands[0]).register_class == kClassS;
  step.run = handler_of(step.info->op, uniform);
  choose_kernel(step, in, kernels);
  return step;
}

}  // namespace

Program::Program(const Binary& binary, const Layout& layout, Level level)
    : kernels_(kernels_of(level)), lanes_(binary.header.lanes), args_(binary.header.args) {
  std::memcpy(name_, binary.header.name, sizeof name_);
  place(layout);
  uint8_t depth = 0;
  steps_.reserve(binary.code.size());
  for (uint32_t i = 0; i < binary.code.size(); ++i) {
    Step step = step_of(binary.code[i], i, kernels_);
    ordered_ = ordered_ || step.info->ordered;
    if (step.info->op == Op::end) --depth;
    step.depth = depth;
    if (step.info->op == Op::loop) ++depth;
    if (step.info->op == Op::loop || step.info->op == Op::end) step.imm = layout.loop_match[i];
    steps_.push_back(step);
  }
}

void Program::place(const Layout& layout) {
  uint32_t at = 0;
  const auto take = [&at](uint32_t bytes) {
    constexpr uint32_t line = kLine;
    const uint32_t here = at;
    at += (bytes + line - 1) / line * line + kGap;
    return here;
  };
  for (uint32_t i = 0; i < kVRegisters; ++i)
    if (layout.vector_bytes[i] != 0) vector_[i] = take(lanes_ * layout.vector_bytes[i]);
  for (uint32_t i = 0; i < kPRegisters; ++i)
    if (layout.predicate[i]) predicate_[i] = take(lanes_);
  if (layout.varying_length) clear_bytes_ = at;
  for (uint32_t i = 0; i < kMRegisters; ++i)
    if (layout.tile_bytes[i] != 0) tile_[i] = take(tile_bytes(layout.tile_bytes[i]));
  scratch_ = take(layout.widened_tiles ? 2 * tile_bytes(sizeof(float)) : lanes_ * 8);
  file_bytes_ = at;
}

void ProgramDeleter::operator()(const Program* program) const { delete program; }

ProgramPtr load(std::span<const std::byte> bytes, Level level, std::string& why) {
  const std::optional<Binary> binary = split(bytes, why);
  if (!binary) return nullptr;
  Layout layout;
  if (const std::optional<Refusal> refusal = verify(*binary, layout)) {
    why = "instruction " + std::to_string(refusal->instruction) + ": " + refusal->reason;
    return nullptr;
  }
  return ProgramPtr(new Program(*binary, layout, level));
}

ProgramPtr load(std::span<const std::byte> bytes, std::string& why) { return load(bytes, best_level(), why); }

const char* name(const Program& program) { return program.name(); }
uint32_t args_bytes(const Program& program) { return program.args(); }

}  // namespace emu::machine
