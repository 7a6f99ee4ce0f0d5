/* Handlers of loads and stores between device memory and vector or uniform registers. */
#include <cstdio>

#include "access.h"
#include "block.h"

namespace emu::machine {
namespace {

using ull = unsigned long long;

const Step* page_fault(Block& block, const Step* step, uint64_t address, uint8_t permission, const char* who) {
  return block.fail(step, EMU_ERROR_PAGE_FAULT, address, "%saddress 0x%llx: expected a page mapped for %s, got none",
                    who, static_cast<ull>(address), permission == kPageRead ? "reading" : "writing");
}

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
    page_fault(block, step, *bad, permission, "");
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
    else page_fault(block, step, address, permission, who);
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

const Step* load_strided(Block& block, const Step* step) {
  return move_lanes(block, step, block.s[step->reg[1]], Strided{block.s[step->reg[2]]}, AllLanes{}, true);
}

const Step* store_strided(Block& block, const Step* step) {
  return move_lanes(block, step, block.s[step->reg[1]], Strided{block.s[step->reg[2]]}, AllLanes{}, false);
}

const Step* listed(Block& block, const Step* step, bool is_load) {
  Listed place{block.vector<int64_t>(step->reg[2])};
  if (is_load && step->reg[0] == step->reg[2]) { /* the destination would overwrite offsets still to be read */
    std::memcpy(block.scratch(), place.offsets, size_t{block.vl} * sizeof(int64_t));
    place.offsets = reinterpret_cast<const int64_t*>(block.scratch());
  }
  const uint64_t base = block.s[step->reg[1]];
  if (step->mask == kUnused) return move_lanes(block, step, base, place, AllLanes{}, is_load);
  const uint8_t negated = (step->mask & kMaskNegated) != 0 ? 1 : 0;
  const MaskedLanes mask{block.predicate(step->mask & 7), negated};
  return move_lanes(block, step, base, place, mask, is_load);
}

const Step* gather(Block& block, const Step* step) { return listed(block, step, true); }

const Step* scatter(Block& block, const Step* step) { return listed(block, step, false); }

}  // namespace

Handler memory_handler(Op op) {
  switch (op) {
    case Op::load: return load;
    case Op::store: return store;
    case Op::loads: return load_strided;
    case Op::stores: return store_strided;
    case Op::gather: return gather;
    case Op::scatter: return scatter;
    case Op::sload: return load_uniform;
    case Op::sstore: return store_uniform;
    default: return nullptr;
  }
}

}  // namespace emu::machine
