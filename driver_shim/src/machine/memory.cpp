/* Handlers of loads and stores between device memory and vector or uniform registers. */
#include <cstdio>

#include "access.h"
#include "block.h"

namespace emu::machine {
namespace {

using ull = unsigned long long;

const Step* misaligned(Block& block, const Step* step, uint64_t address, const char* who) {
  return block.fail(step, EMU_ERROR_MISALIGNED, address, "%saddress 0x%llx: expected a multiple of %u bytes", who,
                    static_cast<ull>(address), step->bytes);
}

/* Host address of a checked contiguous range, or null with the fault noted. */
std::byte* range(Block& block, const Step* step, uint64_t address, uint64_t bytes, uint8_t permission) {
  if (address % step->bytes != 0) {
    misaligned(block, step, address, "");
    return nullptr;
  }
  if (const auto bad = first_bad(block.space, address, bytes, permission)) {
    block.refuse_page(step, *bad, permission);
    return nullptr;
  }
  return block.space.window + (address - block.space.base);
}

/* Whole vectors are copied by a kernel: the C library's memcpy takes `rep movsb` at these sizes, which some hosts
 * run several times slower than plain vector moves. */
const Step* load(Block& block, const Step* step) {
  if (const uint64_t bytes = uint64_t{block.vl} * step->bytes; bytes != 0) {
    const std::byte* from = range(block, step, block.s[step->reg[1]], bytes, kPageRead);
    if (from == nullptr) return nullptr;
    const Source source{from, false};
    step->elementwise(block.vector<std::byte>(step->reg[0]), &source, block.vl);
  }
  block.charge(step, block.vl);
  return step + 1;
}

const Step* store(Block& block, const Step* step) {
  if (const uint64_t bytes = uint64_t{block.vl} * step->bytes; bytes != 0) {
    std::byte* to = range(block, step, block.s[step->reg[1]], bytes, kPageWrite);
    if (to == nullptr) return nullptr;
    const Source source{block.vector<std::byte>(step->reg[0]), false};
    if (block.streaming && bytes % kLine == 0 && reinterpret_cast<uintptr_t>(to) % kLine == 0)
      block.program.kernels().stream(to, source.data, bytes / kLine);
    else step->elementwise(to, &source, block.vl);
  }
  block.charge(step, block.vl);
  return step + 1;
}

const Step* load_uniform(Block& block, const Step* step) {
  const std::byte* from = range(block, step, block.s[step->reg[1]], step->bytes, kPageRead);
  if (from == nullptr) return nullptr;
  uint64_t value = 0;
  std::memcpy(&value, from, step->bytes);
  if (step->kind == Kind::signed_integer) {
    const unsigned unused = 64 - step->bytes * 8u;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
  }
  block.s[step->reg[0]] = value;
  block.charge(step, 1);
  return step + 1;
}

const Step* store_uniform(Block& block, const Step* step) {
  std::byte* to = range(block, step, block.s[step->reg[1]], step->bytes, kPageWrite);
  if (to == nullptr) return nullptr;
  std::memcpy(to, &block.s[step->reg[0]], step->bytes);
  block.charge(step, 1);
  return step + 1;
}

/* Where the lanes of a strided or gathered access lie: the address of lane i is base + of(i). */
struct Strided {
  uint64_t stride;
  uint64_t of(uint32_t lane) const { return lane * stride; }
};
struct Listed {
  const int64_t* offsets;
  uint64_t of(uint32_t lane) const { return static_cast<uint64_t>(offsets[lane]); }
};
struct AllLanes {
  bool operator[](uint32_t) const { return true; }
};
struct MaskedLanes {
  const uint8_t* predicate;
  uint8_t negated;
  bool operator[](uint32_t lane) const { return (predicate[lane] ^ negated) != 0; }
};

/* Lanes whose index is inside: 0 .. count - 1, and none for a count below 1. */
struct Indexed {
  const int64_t* indices;
  uint64_t bytes;
  uint64_t of(uint32_t lane) const { return static_cast<uint64_t>(indices[lane]) * bytes; }
};
template <class Mask>
struct Inside {
  Mask mask;
  const int64_t* indices;
  int64_t count;
  bool operator[](uint32_t lane) const { return mask[lane] && indices[lane] >= 0 && indices[lane] < count; }
};

/* Checks all active lanes, lowest first. `start` is an offset from the space's base, which is aligned for any element.
 * False with the fault noted. */
template <class Place, class Mask>
bool lanes_ok(Block& block, const Step* step, uint64_t start, Place place, Mask mask, uint8_t permission) {
  char who[32];
  const uint64_t align = step->bytes - 1u;
  for (uint32_t i = 0; i < block.vl; ++i) {
    const uint64_t offset = start + place.of(i);
    if (!mask[i] || ((offset & align) == 0 && element_ok(block.space, offset, step->bytes, permission))) continue;
    const uint64_t address = offset + block.space.base;
    std::snprintf(who, sizeof who, "lane %u: ", i);
    if ((offset & align) != 0) misaligned(block, step, address, who);
    else block.refuse_page(step, address, permission, who);
    return false;
  }
  return true;
}

template <class T, class Place, class Mask>
void load_lanes(T* to, const std::byte* window, uint64_t start, Place place, Mask mask, uint32_t lanes) {
  for (uint32_t i = 0; i < lanes; ++i)
    if (mask[i]) std::memcpy(&to[i], window + (start + place.of(i)), sizeof(T));
}

template <class T, class Place, class Mask>
void store_lanes(std::byte* window, const T* from, uint64_t start, Place place, Mask mask, uint32_t lanes) {
  for (uint32_t i = 0; i < lanes; ++i)
    if (mask[i]) std::memcpy(window + (start + place.of(i)), &from[i], sizeof(T));
}

/* Checked, then moved to or from the vector of operand 1. */
template <class Place, class Mask>
const Step* move_lanes(Block& block, const Step* step, uint64_t base, Place place, Mask mask, bool is_load) {
  const uint64_t start = base - block.space.base;
  if (!lanes_ok(block, step, start, place, mask, is_load ? kPageRead : kPageWrite)) return nullptr;
  const uint8_t reg = step->reg[0];
  const auto move = [&]<class T>(T* vector) {
    if (is_load) load_lanes(vector, block.space.window, start, place, mask, block.vl);
    else store_lanes(block.space.window, vector, start, place, mask, block.vl);
  };
  switch (step->bytes) {
    case 1: move(block.vector<uint8_t>(reg)); break;
    case 2: move(block.vector<uint16_t>(reg)); break;
    case 4: move(block.vector<uint32_t>(reg)); break;
    default: move(block.vector<uint64_t>(reg)); break;
  }
  block.charge(step, block.vl);
  return step + 1;
}

/* Whether there are lanes, side by side on pages that allow it; what is wrong is told lane by lane. */
bool side_by_side(const Block& block, const Step* step, uint8_t permission) {
  const uint64_t address = block.s[step->reg[1]];
  return block.vl != 0 && block.s[step->reg[2]] == step->bytes && address % step->bytes == 0 &&
         !first_bad(block.space, address, uint64_t{block.vl} * step->bytes, permission);
}

const Step* load_strided(Block& block, const Step* step) {
  if (side_by_side(block, step, kPageRead)) return load(block, step);
  return move_lanes(block, step, block.s[step->reg[1]], Strided{block.s[step->reg[2]]}, AllLanes{}, true);
}

const Step* store_strided(Block& block, const Step* step) {
  if (side_by_side(block, step, kPageWrite)) return store(block, step);
  return move_lanes(block, step, block.s[step->reg[1]], Strided{block.s[step->reg[2]]}, AllLanes{}, false);
}

/* The vector of operand `slot`, safe from a destination in the same register that would overwrite what is still to
 * be read. */
const int64_t* numbers(Block& block, const Step* step, uint32_t slot, bool has_destination) {
  const int64_t* here = block.vector<int64_t>(step->reg[slot]);
  if (!has_destination || step->reg[0] != step->reg[slot]) return here;
  std::memcpy(block.scratch(), here, size_t{block.vl} * sizeof(int64_t));
  return reinterpret_cast<const int64_t*>(block.scratch());
}

/* f(mask) with the instruction's mask. */
template <class F>
const Step* masked(Block& block, const Step* step, F f) {
  if (step->mask == kUnused) return f(AllLanes{});
  const uint8_t negated = (step->mask & kMaskNegated) != 0 ? 1 : 0;
  return f(MaskedLanes{block.predicate(step->mask & 7), negated});
}

const Step* listed(Block& block, const Step* step, bool is_load) {
  const Listed place{numbers(block, step, 2, is_load)};
  return masked(block, step,
                [&](auto mask) { return move_lanes(block, step, block.s[step->reg[1]], place, mask, is_load); });
}

const Step* gather(Block& block, const Step* step) { return listed(block, step, true); }

const Step* scatter(Block& block, const Step* step) { return listed(block, step, false); }

template <class Mask>
const Step* move_bounded(Block& block, const Step* step, Mask mask, bool is_load) {
  const int64_t* indices = numbers(block, step, 2, is_load);
  const int64_t count = static_cast<int64_t>(block.s[step->reg[3]]);
  const Inside<Mask> inside{mask, indices, count};
  static_assert(kGatherbFault == kScatterbFault);
  for (uint32_t i = 0; i < block.vl; ++i) {
    if (!mask[i] || inside[i]) continue;
    if (step->mode == kGatherbFault)
      return block.fail(step, EMU_ERROR_OUT_OF_BOUNDS, 0, "lane %u: expected an index from 0 to %lld, got %lld", i,
                        static_cast<long long>(count) - 1, static_cast<long long>(indices[i]));
    if (is_load) std::memset(block.vector<std::byte>(step->reg[0]) + size_t{i} * step->bytes, 0, step->bytes);
  }
  return move_lanes(block, step, block.s[step->reg[1]], Indexed{indices, step->bytes}, inside, is_load);
}

const Step* gather_bounded(Block& block, const Step* step) {
  return masked(block, step, [&](auto mask) { return move_bounded(block, step, mask, true); });
}

const Step* scatter_bounded(Block& block, const Step* step) {
  return masked(block, step, [&](auto mask) { return move_bounded(block, step, mask, false); });
}

/* One element becomes next(what it was), in one step. Gives what it was. */
template <class T, class Next>
T exchange(std::byte* at, Next next) {
  T* element = reinterpret_cast<T*>(at);
  T old = __atomic_load_n(element, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(element, &old, next(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
  return old;
}

/* The active lanes in ascending order: next(lane, old) is what the lane's element becomes, given(lane, old) is told. */
template <class T, class Next, class Given>
const Step* exchange_lanes(Block& block, const Step* step, const int64_t* offsets, Next next, Given given) {
  return masked(block, step, [&](auto mask) -> const Step* {
    const uint64_t start = block.s[step->reg[1]] - block.space.base;
    const Listed place{offsets};
    if (!lanes_ok(block, step, start, place, mask, kPageRead) || !lanes_ok(block, step, start, place, mask, kPageWrite))
      return nullptr;
    for (uint32_t i = 0; i < block.vl; ++i)
      if (mask[i])
        given(i, exchange<T>(block.space.window + (start + place.of(i)), [&](T old) { return next(i, old); }));
    block.charge(step, block.vl);
    return step + 1;
  });
}

template <class T>
T combine(const Step* step, T old, T lane) {
  T out;
  const Source sources[2] = {{&old, true}, {&lane, true}};
  step->elementwise(&out, sources, 1);
  return out;
}

template <class T>
const Step* reduce_in_memory(Block& block, const Step* step) {
  const T* from = block.vector<T>(step->reg[0]);
  return exchange_lanes<T>(
      block, step, block.vector<int64_t>(step->reg[2]), [&](uint32_t i, T old) { return combine(step, old, from[i]); },
      [](uint32_t, T) {});
}

template <class T>
const Step* fetch_and_change(Block& block, const Step* step) {
  T* to = block.vector<T>(step->reg[0]);
  const T* from = block.vector<T>(step->reg[3]);
  const bool swap = step->mode == kAtomSwap;
  return exchange_lanes<T>(
      block, step, numbers(block, step, 2, true),
      [&](uint32_t i, T old) { return swap ? from[i] : combine(step, old, from[i]); },
      [&](uint32_t i, T old) { to[i] = old; });
}

template <class T>
const Step* compare_and_swap(Block& block, const Step* step) {
  T* to = block.vector<T>(step->reg[0]);
  const T *expected = block.vector<T>(step->reg[3]), *replacement = block.vector<T>(step->reg[4]);
  return exchange_lanes<T>(
      block, step, numbers(block, step, 2, true),
      [&](uint32_t i, T old) { return old == expected[i] ? replacement[i] : old; },
      [&](uint32_t i, T old) { to[i] = old; });
}

/* Atomics are of 4 or 8 bytes. */
const Step* red(Block& block, const Step* step) {
  return step->bytes == 4 ? reduce_in_memory<uint32_t>(block, step) : reduce_in_memory<uint64_t>(block, step);
}

const Step* atom(Block& block, const Step* step) {
  return step->bytes == 4 ? fetch_and_change<uint32_t>(block, step) : fetch_and_change<uint64_t>(block, step);
}

const Step* cas(Block& block, const Step* step) {
  return step->bytes == 4 ? compare_and_swap<uint32_t>(block, step) : compare_and_swap<uint64_t>(block, step);
}

}  // namespace

Handler memory_handler(Op op) {
  switch (op) {
    case Op::load: return load;
    case Op::store: return store;
    case Op::loads: return load_strided;
    case Op::stores: return store_strided;
    case Op::gather: return gather;
    case Op::scatter: return scatter;
    case Op::gatherb: return gather_bounded;
    case Op::scatterb: return scatter_bounded;
    case Op::red: return red;
    case Op::atom: return atom;
    case Op::cas: return cas;
    case Op::sload: return load_uniform;
    case Op::sstore: return store_uniform;
    default: return nullptr;
  }
}

}  // namespace emu::machine
