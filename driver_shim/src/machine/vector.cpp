/* Handlers of operations on lanes: they find the operands, and a kernel does the work. */
#include "block.h"

namespace emu::machine {
namespace {

template <class T>
void repeat(std::byte* to, uint64_t bits) {
  const T one = static_cast<T>(bits);
  T* out = reinterpret_cast<T*>(to);
  for (uint32_t i = 0; i < kStep; ++i) out[i] = one;
}

const void* repeated(Block& block, uint32_t which, uint64_t bits, uint32_t bytes) {
  std::byte* to = block.repeated[which];
  switch (bytes) {
    case 1: repeat<uint8_t>(to, bits); break;
    case 2: repeat<uint16_t>(to, bits); break;
    case 4: repeat<uint32_t>(to, bits); break;
    default: repeat<uint64_t>(to, bits); break;
  }
  return to;
}

bool has(uint8_t set, uint32_t slot) { return (set >> slot & 1u) != 0; }

std::byte* destination(Block& block, const Step* step) {
  return has(step->predicates, 0) ? reinterpret_cast<std::byte*>(block.predicate(step->reg[0]))
                                  : block.vector<std::byte>(step->reg[0]);
}

const Step* map(Block& block, const Step* step) {
  std::byte* to = destination(block, step);
  Source sources[3] = {};
  for (uint32_t i = 0; i < step->sources; ++i) {
    const uint32_t slot = i + 1;
    const uint8_t reg = step->reg[slot];
    if (has(step->vectors, slot)) {
      sources[i] = {block.vector<void>(reg), false};
    } else if (has(step->predicates, slot)) {
      sources[i] = {block.predicate(reg), false};
    } else {
      sources[i] = {repeated(block, i, block.s[reg], step->source_bytes[i]), true};
    }
    if (sources[i].data == to && step->source_bytes[i] != step->bytes) { /* in place, with elements of another size */
      std::memcpy(block.scratch(), to, size_t{block.vl} * step->source_bytes[i]);
      sources[i].data = block.scratch();
    }
  }
  step->elementwise(to, sources, block.vl);
  block.charge(step, block.vl);
  return step + 1;
}

/* Sign-extended for signed integers, zero-extended for the rest. */
uint64_t extend(uint64_t bits, const Step* step) {
  if (step->kind != Kind::signed_integer) return bits;
  const unsigned unused = 64 - step->bytes * 8u;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

const Step* map_uniform(Block& block, const Step* step) {
  Source sources[3] = {};
  for (uint32_t i = 0; i < step->sources; ++i) sources[i] = {&block.s[step->reg[i + 1]], true};
  uint64_t out = 0;
  step->elementwise(&out, sources, 1);
  block.s[step->reg[0]] = extend(out, step);
  block.charge(step, 1);
  return step + 1;
}

const Step* compare_uniform(Block& block, const Step* step) {
  const Source sources[2] = {{&block.s[step->reg[1]], true}, {&block.s[step->reg[2]], true}};
  uint8_t out = 0;
  step->elementwise(&out, sources, 1);
  block.s[step->reg[0]] = out;
  block.charge(step, 1);
  return step + 1;
}

const Step* constant(Block& block, const Step* step) {
  const Source source{repeated(block, 0, step->imm, step->bytes), true};
  step->elementwise(destination(block, step), &source, block.vl);
  block.charge(step, block.vl);
  return step + 1;
}

const Step* constant_uniform(Block& block, const Step* step) {
  block.s[step->reg[0]] = extend(step->imm, step);
  block.charge(step, 1);
  return step + 1;
}

const Step* lane_index(Block& block, const Step* step) {
  if (step->bytes == 4) {
    int32_t* to = block.vector<int32_t>(step->reg[0]);
    for (uint32_t i = 0; i < block.vl; ++i) to[i] = static_cast<int32_t>(i);
  } else {
    int64_t* to = block.vector<int64_t>(step->reg[0]);
    for (uint32_t i = 0; i < block.vl; ++i) to[i] = i;
  }
  block.charge(step, block.vl);
  return step + 1;
}

const Step* reduce(Block& block, const Step* step) {
  const void* from = step->predicates != 0 ? block.predicate(step->reg[1]) : block.vector<void>(step->reg[1]);
  step->reduction(&block.s[step->reg[0]], from, block.vl);
  block.charge(step, block.vl);
  return step + 1;
}

}  // namespace

Handler vector_handler(Op op, bool uniform_destination) {
  switch (op) {
    case Op::const_: return uniform_destination ? constant_uniform : constant;
    case Op::lane: return lane_index;
    case Op::cmp: return uniform_destination ? compare_uniform : map;
    case Op::reduce:
    case Op::argreduce:
    case Op::any: return reduce;
    default: return uniform_destination ? map_uniform : map;
  }
}

}  // namespace emu::machine
