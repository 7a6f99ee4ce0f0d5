/* Handlers of what steers a block: arguments, indices, vector length, loops and skips. */
#include "block.h"

namespace emu::machine {
namespace {

const Step* arg(Block& block, const Step* step) {
  const std::byte* from = block.args.data() + step->imm;
  uint32_t narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  uint64_t value =
      step->kind == Kind::signed_integer ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(narrow)}) : narrow;
  if (step->bytes == sizeof value) std::memcpy(&value, from, sizeof value);
  block.s[step->reg[0]] = value;
  block.charge(step, 0);
  return step + 1;
}

const Step* block_index(Block& block, const Step* step) {
  block.s[step->reg[0]] = block.index[step->imm];
  block.charge(step, 0);
  return step + 1;
}

const Step* block_count(Block& block, const Step* step) {
  block.s[step->reg[0]] = block.grid[step->imm];
  block.charge(step, 0);
  return step + 1;
}

const Step* set_length(Block& block, const Step* step) {
  const int64_t asked = static_cast<int64_t>(block.s[step->reg[1]]);
  const int64_t lanes = block.program.lanes();
  block.vl = static_cast<uint32_t>(asked < 0 ? 0 : asked > lanes ? lanes : asked);
  block.s[step->reg[0]] = block.vl;
  block.charge(step, 0);
  return step + 1;
}

const Step* loop(Block& block, const Step* step) {
  const int64_t count = static_cast<int64_t>(block.s[step->reg[1]]);
  block.s[step->reg[0]] = 0;
  block.loop_count[step->depth] = count;
  block.charge(step, 0);
  return count > 0 ? step + 1 : block.program.at(step->imm) + 1;
}

const Step* end(Block& block, const Step* step) {
  block.charge(step, 0);
  if (block.ticks > block.limits.ticks)
    return block.fail(step, EMU_ERROR_BUDGET, 0, "the block used %llu ticks, the launch may use %llu",
                      static_cast<unsigned long long>(block.ticks),
                      static_cast<unsigned long long>(block.limits.ticks));
  const Step* start = block.program.at(step->imm);
  const uint64_t done = ++block.s[start->reg[0]];
  return static_cast<int64_t>(done) < block.loop_count[step->depth] ? start + 1 : step + 1;
}

const Step* skip_if_zero(Block& block, const Step* step) {
  block.charge(step, 0);
  return block.s[step->reg[0]] == 0 ? block.program.at(step->imm) : step + 1;
}

const Step* leave(Block& block, const Step* step) {
  block.charge(step, 0);
  return nullptr;
}

}  // namespace

Handler control_handler(Op op) {
  switch (op) {
    case Op::arg: return arg;
    case Op::block: return block_index;
    case Op::blocks: return block_count;
    case Op::setvl: return set_length;
    case Op::loop: return loop;
    case Op::end: return end;
    case Op::skipz: return skip_if_zero;
    case Op::exit: return leave;
    default: return nullptr;
  }
}

}  // namespace emu::machine
