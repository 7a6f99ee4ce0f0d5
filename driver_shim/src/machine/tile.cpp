/* Handlers of matrix tiles. A tile is row-major, its rows padded to 64 bytes. */
#include "access.h"
#include "block.h"

namespace emu::machine {
namespace {

using ull = unsigned long long;

constexpr uint32_t kRowBytes = 64;

uint32_t stride_of(uint32_t columns, uint32_t bytes) {
  const uint32_t per_line = kRowBytes / bytes;
  return (columns + per_line - 1) / per_line * per_line;
}

/* Gives register `i` a shape, or notes a fault. */
bool shape(Block& block, const Step* step, uint8_t i, uint64_t rows, uint64_t columns) {
  if (rows > kTileRows || columns > kTileColumns) {
    block.fail(step, EMU_ERROR_ILLEGAL_COMMAND, 0, "expected a tile of at most %u x %u, got %lld x %lld", kTileRows,
               kTileColumns, static_cast<long long>(rows), static_cast<long long>(columns));
    return false;
  }
  block.m[i] = {static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
                stride_of(static_cast<uint32_t>(columns), step->bytes)};
  return true;
}

const Step* zero(Block& block, const Step* step) {
  const uint8_t reg = step->reg[0];
  if (!shape(block, step, reg, block.s[step->reg[1]], block.s[step->reg[2]])) return nullptr;
  const Tile& tile = block.m[reg];
  std::memset(block.tile(reg), 0, size_t{tile.rows} * tile.stride * step->bytes);
  block.charge(step, uint64_t{tile.rows} * tile.columns);
  return step + 1;
}

/* Checks `count` runs of `bytes` bytes, `stride` apart. False with the fault noted. */
bool runs_ok(Block& block, const Step* step, uint64_t address, uint64_t stride, uint32_t count, uint64_t bytes,
             uint8_t permission) {
  if (address % step->bytes != 0 || stride % step->bytes != 0) {
    block.fail(step, EMU_ERROR_MISALIGNED, address, "address 0x%llx, stride %lld: expected multiples of %u bytes",
               static_cast<ull>(address), static_cast<long long>(stride), step->bytes);
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto bad = first_bad(block.space, address + i * stride, bytes, permission);
    if (!bad) continue;
    block.refuse_page(step, *bad, permission);
    return false;
  }
  return true;
}

/* Square blocks, so that both sides of the transposition stay in a few cache lines. */
constexpr uint32_t kSquare = 16;

template <class T>
void load_columns(T* tile, const Tile& shape, const std::byte* window, uint64_t address, uint64_t stride) {
  for (uint32_t c0 = 0; c0 < shape.columns; c0 += kSquare)
    for (uint32_t r0 = 0; r0 < shape.rows; r0 += kSquare)
      for (uint32_t c = c0; c < shape.columns && c < c0 + kSquare; ++c)
        for (uint32_t r = r0; r < shape.rows && r < r0 + kSquare; ++r)
          std::memcpy(&tile[r * shape.stride + c], window + (address + c * stride + r * sizeof(T)), sizeof(T));
}

template <class T>
void store_columns(const T* tile, const Tile& shape, std::byte* window, uint64_t address, uint64_t stride) {
  for (uint32_t c0 = 0; c0 < shape.columns; c0 += kSquare)
    for (uint32_t r0 = 0; r0 < shape.rows; r0 += kSquare)
      for (uint32_t c = c0; c < shape.columns && c < c0 + kSquare; ++c)
        for (uint32_t r = r0; r < shape.rows && r < r0 + kSquare; ++r)
          std::memcpy(window + (address + c * stride + r * sizeof(T)), &tile[r * shape.stride + c], sizeof(T));
}

const Step* load(Block& block, const Step* step) {
  const uint8_t reg = step->reg[0];
  const uint64_t address = block.s[step->reg[1]], stride = block.s[step->reg[2]];
  if (!shape(block, step, reg, block.s[step->reg[3]], block.s[step->reg[4]])) return nullptr;
  const Tile& tile = block.m[reg];
  block.charge(step, uint64_t{tile.rows} * tile.columns);
  if (tile.rows == 0 || tile.columns == 0) return step + 1;
  std::byte* to = block.tile(reg);
  const bool by_row = step->mode == kMloadRow;
  const uint32_t count = by_row ? tile.rows : tile.columns, length = by_row ? tile.columns : tile.rows;
  if (!runs_ok(block, step, address, stride, count, uint64_t{length} * step->bytes, kPageRead)) return nullptr;
  const std::byte* window = block.space.window;
  const uint64_t at = address - block.space.base;
  if (by_row) {
    for (uint32_t r = 0; r < tile.rows; ++r)
      std::memcpy(to + size_t{r} * tile.stride * step->bytes, window + (at + r * stride),
                  size_t{tile.columns} * step->bytes);
    return step + 1;
  }
  switch (step->bytes) {
    case 1: load_columns(reinterpret_cast<uint8_t*>(to), tile, window, at, stride); break;
    case 2: load_columns(reinterpret_cast<uint16_t*>(to), tile, window, at, stride); break;
    case 4: load_columns(reinterpret_cast<uint32_t*>(to), tile, window, at, stride); break;
    default: load_columns(reinterpret_cast<uint64_t*>(to), tile, window, at, stride); break;
  }
  return step + 1;
}

const Step* store(Block& block, const Step* step) {
  const uint8_t reg = step->reg[0];
  const uint64_t address = block.s[step->reg[1]], stride = block.s[step->reg[2]];
  const Tile& tile = block.m[reg];
  block.charge(step, uint64_t{tile.rows} * tile.columns);
  if (tile.rows == 0 || tile.columns == 0) return step + 1;
  const std::byte* from = block.tile(reg);
  const bool by_row = step->mode == kMstoreRow;
  const uint32_t count = by_row ? tile.rows : tile.columns, length = by_row ? tile.columns : tile.rows;
  if (!runs_ok(block, step, address, stride, count, uint64_t{length} * step->bytes, kPageWrite)) return nullptr;
  std::byte* window = block.space.window;
  const uint64_t at = address - block.space.base;
  if (by_row) {
    for (uint32_t r = 0; r < tile.rows; ++r)
      std::memcpy(window + (at + r * stride), from + size_t{r} * tile.stride * step->bytes,
                  size_t{tile.columns} * step->bytes);
    return step + 1;
  }
  switch (step->bytes) {
    case 1: store_columns(reinterpret_cast<const uint8_t*>(from), tile, window, at, stride); break;
    case 2: store_columns(reinterpret_cast<const uint16_t*>(from), tile, window, at, stride); break;
    case 4: store_columns(reinterpret_cast<const uint32_t*>(from), tile, window, at, stride); break;
    default: store_columns(reinterpret_cast<const uint64_t*>(from), tile, window, at, stride); break;
  }
  return step + 1;
}

/* The step's conversion of each row of a tile. */
void convert_rows(const Step* step, TileView to, TileView from, uint32_t to_bytes, const Tile& shape) {
  for (uint32_t r = 0; r < shape.rows; ++r) {
    const Source row{static_cast<const std::byte*>(from.data) + size_t{r} * from.stride * step->source_bytes[0], false};
    step->elementwise(static_cast<std::byte*>(to.data) + size_t{r} * to.stride * to_bytes, &row, shape.columns);
  }
}

const Step* convert(Block& block, const Step* step) {
  const uint8_t to = step->reg[0], from = step->reg[1];
  const Tile& shape = block.m[from];
  block.m[to] = {shape.rows, shape.columns, stride_of(shape.columns, step->bytes)};
  convert_rows(step, {block.tile(to), block.m[to].stride}, {block.tile(from), shape.stride}, step->bytes, shape);
  block.charge(step, uint64_t{shape.rows} * shape.columns);
  return step + 1;
}

/* Notes a fault if the shapes don't fit; else charges the product. */
bool product_ok(Block& block, const Step* step) {
  const Tile &d = block.m[step->reg[0]], &a = block.m[step->reg[1]], &b = block.m[step->reg[2]];
  if (d.rows != a.rows || d.columns != b.columns || a.columns != b.rows) {
    block.fail(step, EMU_ERROR_ILLEGAL_COMMAND, 0,
               "expected shapes (m x n) += (m x k) (k x n), got (%u x %u) += (%u x %u) (%u x %u)", d.rows, d.columns,
               a.rows, a.columns, b.rows, b.columns);
    return false;
  }
  const uint64_t quarters = uint64_t{d.rows} * d.columns * a.columns * step->lane_quarters;
  block.charge_ticks(step, step->fixed_ticks + (quarters + 4 * kFmaPerTick - 1) / (4 * kFmaPerTick));
  return true;
}

const Step* multiply_add(Block& block, const Step* step) {
  if (!product_ok(block, step)) return nullptr;
  const Tile &d = block.m[step->reg[0]], &a = block.m[step->reg[1]], &b = block.m[step->reg[2]];
  step->multiply_add({block.tile(step->reg[0]), d.stride}, {block.tile(step->reg[1]), a.stride},
                     {block.tile(step->reg[2]), b.stride}, d.rows, d.columns, a.columns);
  return step + 1;
}

/* Widens both operands, into scratch, to the type of the sums. */
const Step* multiply_add_narrow(Block& block, const Step* step) {
  if (!product_ok(block, step)) return nullptr;
  const Tile& d = block.m[step->reg[0]];
  TileView wide[2];
  for (uint32_t i = 0; i < 2; ++i) {
    const uint8_t reg = step->reg[i + 1];
    const Tile& shape = block.m[reg];
    wide[i] = {block.scratch() + size_t{i} * kTileRows * kTileColumns * step->bytes,
               stride_of(shape.columns, step->bytes)};
    convert_rows(step, wide[i], {block.tile(reg), shape.stride}, step->bytes, shape);
  }
  const Type sums = step->info->op == Op::mmaw ? Type::f32 : Type::i32;
  const MultiplyAdd multiply_add = block.program.kernels().multiply_add(sums);
  multiply_add({block.tile(step->reg[0]), d.stride}, wide[0], wide[1], d.rows, d.columns,
               block.m[step->reg[1]].columns);
  return step + 1;
}

}  // namespace

Handler tile_handler(Op op) {
  switch (op) {
    case Op::mzero: return zero;
    case Op::mload: return load;
    case Op::mstore: return store;
    case Op::mma: return multiply_add;
    case Op::mmaw:
    case Op::mmai: return multiply_add_narrow;
    case Op::mcvt: return convert;
    default: return nullptr;
  }
}

}  // namespace emu::machine
