/* The instruction set engine: assemble, verify and run programs of driver_shim/spec/isa.toml.
 *
 * Nothing here keeps global state, opens a file or reads the environment. A program that `load` accepted can do
 * no harm to the process that runs it: it reads and writes only pages that the address space allows, and it ends
 * within its limits. Results and ticks of a launch that was not ended early depend on the program, its arguments and
 * memory, never on the host's instruction set, number of threads or speed. */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emu/driver.h"

namespace emu::machine {

constexpr uint8_t kPageRead = 1; /* now: it may be read, and has no bit error */
constexpr uint8_t kPageWrite = 2;
constexpr uint8_t kPageBitError = 4;
constexpr uint8_t kPageMapped = 8;
constexpr uint8_t kPageMayRead = 16; /* its owner's word; a bit error takes kPageRead away meanwhile */

/* Asked before a page with kPageBitError is refused to who reads it. */
class BitErrorCorrection {
 public:
  /* Makes it readable, and is true, if all its errors can be corrected. By several threads at once. */
  virtual bool correct(uint64_t page) noexcept = 0;

 protected:
  ~BitErrorCorrection() = default;
};

/* What a program may touch. `window` is the host address of device address `base`; device addresses base ..
 * base + bytes - 1 are valid where `pages`, one byte a page of 1 << page_shift bytes, has the permission. Pages may be
 * added while a program runs (bytes of `pages` are read atomically), and must not be taken away. */
struct AddressSpace {
  std::byte* window = nullptr;
  uint64_t bytes = 0;
  const uint8_t* pages = nullptr;
  unsigned page_shift = 16;
  uint64_t base = 0; /* a multiple of the page size */
  BitErrorCorrection* correction = nullptr; /* none: such pages stay as they are */
};

/* Why a program ended early. With several bad blocks it is that of the lowest block. */
struct Fault {
  emu_status status = EMU_OK;
  uint64_t address = 0;     /* for page faults, bit errors and misalignment, else 0 */
  uint32_t instruction = 0; /* index in the program */
  char cause[256] = "";     /* one sentence: what happened, expected against got */
};

/* By what an instruction keeps busy. */
struct UnitTicks {
  uint64_t matrix = 0;
  uint64_t vector = 0;
  uint64_t memory = 0;
};

/* Cycles of one launch. `ticks` is how long the launch takes: launch cost, then the busiest of the machine's
 * cores (block b runs on core b mod cores; all blocks of an ordered program on one). `total` is summed over
 * all cores, so a unit's utilisation is total.matrix / (cores * ticks). `busiest` is of the busiest core, the first of
 * equals: what of `ticks` it leaves is launch cost and the clearing of registers. */
struct Cost {
  uint64_t ticks = 0;
  UnitTicks total;
  UnitTicks busiest;
  uint64_t memory_bytes = 0; /* of the lanes of all loads and stores, those masked off included, as they are charged */
};

/* What ends a launch that is not done. The flag and the host's clock are looked at between instructions. */
struct Limits {
  uint64_t ticks = 0; /* of device time; beyond it the fault is EMU_ERROR_BUDGET */
  /* Host time, where the fault is EMU_ERROR_LAUNCH_TIMEOUT: noticed within some tens of milliseconds. */
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  /* Who sets it wants the launch gone at once, and no result: the fault is EMU_ERROR_CONTEXT_LOST. */
  const std::atomic<bool>* cancelled = nullptr;
};

/* Host instruction sets that the kernels are built for. All give the same bits. */
enum class Level { baseline, avx2, avx512 };

/* The highest level that this host can run. */
Level best_level();

class Program; /* immutable and verified; may be run by several threads at once */
struct ProgramDeleter {
  void operator()(const Program*) const;
};
using ProgramPtr = std::unique_ptr<const Program, ProgramDeleter>;

/* Null, and `why` names the instruction and the rule, if the binary is malformed. */
ProgramPtr load(std::span<const std::byte> binary, std::string& why);
ProgramPtr load(std::span<const std::byte> binary, Level level, std::string& why);

/* Name given by `.program`, at most 63 bytes. */
const char* name(const Program&);
/* Bytes of arguments that `run` expects, given by `.args`. */
uint32_t args_bytes(const Program&);

/* Text to binary. On failure `why` is "LINE:COLUMN: expected ..., got ...". What assembles also loads. */
std::optional<std::vector<std::byte>> assemble(std::string_view text, std::string& why);

/* Binary to text that assembles to the same binary. Refuses what `load` refuses. */
std::optional<std::string> disassemble(std::span<const std::byte> binary, std::string& why);

/* Host threads that blocks are spread over; the thread that calls `run` takes part, so Pool(1) starts none.
 * Where the host refuses a thread, it has fewer. Several threads may run programs on one pool: the second does its
 * blocks alone. */
class Pool {
 public:
  explicit Pool(unsigned threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  unsigned threads() const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/* Runs the program over grid[0] * grid[1] * grid[2] blocks and returns when all are done. False, with `fault`
 * filled, when a block faults, the launch reaches one of its limits, the grid is empty or has more than 2^40 blocks,
 * or `args` is not args_bytes() long. `cost` is filled either way. Throws std::bad_alloc when the host has no memory
 * for registers; some blocks may have run then. */
bool run(const Program&, const AddressSpace&, const uint32_t grid[3], std::span<const std::byte> args,
         const Limits&, Pool&, Cost&, Fault&);

}  // namespace emu::machine

#endif
