#include "block.h"

#include <cstdarg>
#include <cstdio>
#include <new>

#include "access.h"

namespace emu::machine {
namespace {

/* Instructions between two looks at the limits: the slowest take the host about a millisecond each. */
constexpr unsigned kInstructionsAtOnce = 64;
/* Reading the clock costs as much as a small block, so it is done each time that this much work is behind: between
 * one and some tens of milliseconds of the host's. */
constexpr uint64_t kClockTicks = 1 << 20;

}  // namespace

std::byte* RegisterFile::reserve(size_t bytes) {
  if (bytes > bytes_) {
    data_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
    std::memset(data_.get(), 0, bytes);
    bytes_ = bytes;
  }
  return data_.get();
}

Block::Block(const Program& p, const AddressSpace& a, const uint32_t g[3], std::span<const std::byte> arguments,
             const Limits& bounds, bool past_caches, RegisterFile& file)
    : program(p),
      space(a),
      args(arguments),
      limits(bounds),
      streaming(past_caches),
      grid{g[0], g[1], g[2]},
      file_(file.reserve(p.file_bytes())),
      clock_due_(kClockTicks) {}

bool Block::run(uint64_t linear_index) {
  index[0] = static_cast<uint32_t>(linear_index % grid[0]);
  index[1] = static_cast<uint32_t>(linear_index / grid[0] % grid[1]);
  index[2] = static_cast<uint32_t>(linear_index / grid[0] / grid[1]);
  std::memset(s, 0, sizeof s);
  vl = program.lanes();
  ticks_before_ += ticks;
  ticks = 0;
  std::memset(unit_ticks, 0, sizeof unit_ticks);
  memory_bytes = 0;
  if (ended_early()) return false;
  if (const uint32_t bytes = program.clear_bytes(); bytes != 0) {
    std::memset(file_, 0, bytes);
    ticks += (bytes + kClearBytesPerTick - 1) / kClearBytesPerTick;
  }
  const Step* step = program.first();
  while (true) {
    for (unsigned n = 0; n < kInstructionsAtOnce && step != nullptr; ++n) step = step->run(*this, step);
    if (step == nullptr) return fault.status == EMU_OK;
    if (ended_early()) return false;
  }
}

/* True, with the fault noted, if the launch was cancelled or is out of time. */
bool Block::ended_early() {
  if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) {
    fault.status = EMU_ERROR_CONTEXT_LOST;
    std::snprintf(fault.cause, sizeof fault.cause, "the launch was cancelled");
    return true;
  }
  if (ticks_before_ + ticks < clock_due_) return false;
  clock_due_ = ticks_before_ + ticks + kClockTicks;
  if (std::chrono::steady_clock::now() < limits.deadline) return false;
  fault.status = EMU_ERROR_LAUNCH_TIMEOUT;
  std::snprintf(fault.cause, sizeof fault.cause, "the launch took longer than it may on the host");
  return true;
}

const Step* Block::refuse_page(const Step* step, uint64_t address, uint8_t permission, const char* who) {
  const auto at = static_cast<unsigned long long>(address);
  if (has_bit_error(space, address, permission)) {
    return fail(step, EMU_ERROR_MEMORY_ERROR, address,
                "%saddress 0x%llx: expected to read its page, got bit errors that cannot be corrected", who, at);
  }
  return fail(step, EMU_ERROR_PAGE_FAULT, address, "%saddress 0x%llx: expected a page mapped for %s, got %s", who, at,
              permission == kPageRead ? "reading" : "writing",
              is_mapped(space, address) ? "one that may not be accessed so" : "none");
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
