#include "block.h"

#include <cstdarg>
#include <cstdio>
#include <new>

namespace emu::machine {

std::byte* RegisterFile::reserve(size_t bytes) {
  if (bytes > bytes_) {
    data_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
    std::memset(data_.get(), 0, bytes);
    bytes_ = bytes;
  }
  return data_.get();
}

Block::Block(const Program& p, const AddressSpace& a, const uint32_t g[3], std::span<const std::byte> arguments,
             uint64_t budget, bool past_caches, RegisterFile& file)
    : program(p),
      space(a),
      args(arguments),
      tick_budget(budget),
      streaming(past_caches),
      grid{g[0], g[1], g[2]},
      file_(file.reserve(p.file_bytes())) {}

bool Block::run(uint64_t linear_index) {
  index[0] = static_cast<uint32_t>(linear_index % grid[0]);
  index[1] = static_cast<uint32_t>(linear_index / grid[0] % grid[1]);
  index[2] = static_cast<uint32_t>(linear_index / grid[0] / grid[1]);
  std::memset(s, 0, sizeof s);
  vl = program.lanes();
  ticks = 0;
  std::memset(unit_ticks, 0, sizeof unit_ticks);
  if (program.clear_bytes() != 0) std::memset(file_, 0, program.clear_bytes());
  for (const Step* step = program.first(); step != nullptr;) step = step->run(*this, step);
  return fault.status == EMU_OK;
}

const Step* Block::fail(const Step* step, emu_status status, uint64_t address, const char* format, ...) {
  fault.status = status;
  fault.address = address;
  fault.instruction = step->index;
  const int used = std::snprintf(fault.cause, sizeof fault.cause, "block (%u, %u, %u), instruction %u `%s`: ", index[0],
                                 index[1], index[2], step->index, step->info->name);
  va_list list;
  va_start(list, format);
  std::vsnprintf(fault.cause + used, sizeof fault.cause - static_cast<size_t>(used), format, list);
  va_end(list);
  return nullptr;
}

}  // namespace emu::machine
