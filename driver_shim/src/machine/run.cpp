/* A launch: blocks handed out to threads, their ticks added up, the lowest fault kept. */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>

#include "pool.h"

namespace emu::machine {
namespace {

constexpr uint64_t kBlocksMost = uint64_t{1} << 40;
constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
/* Work below this is done before a worker would have woken up. */
constexpr uint64_t kWorthWaking = 30000; /* ns */
constexpr uint64_t kChunk = 20000;       /* ns of blocks that a thread takes at once */

/* From here on what a launch writes (16 MiB of f32) is more than a core's share of the caches. */
constexpr uint64_t kStreamingLanes = uint64_t{1} << 22;

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

struct Core {
  uint64_t ticks = 0;
  uint64_t unit[kUnits] = {};

  void add(uint64_t more, const uint64_t units[kUnits]) {
    ticks += more;
    for (uint32_t u = 0; u < kUnits; ++u) unit[u] += units[u];
  }
  UnitTicks units() const {
    const auto of = [this](Unit which) { return unit[static_cast<unsigned>(which)]; };
    return {of(Unit::matrix), of(Unit::vector), of(Unit::memory)};
  }
};

struct Tally {
  Core core[kCores];
  uint64_t total = 0;
  uint64_t memory_bytes = 0;

  /* Blocks in order are all on one core's account: none begins before the one before it has ended. */
  void add(uint64_t index, const Block& block) {
    total += block.ticks;
    memory_bytes += block.memory_bytes;
    core[block.program.ordered() ? 0 : index % kCores].add(block.ticks, block.unit_ticks);
  }
  void add(const Tally& other) {
    total += other.total;
    memory_bytes += other.memory_bytes;
    for (uint32_t c = 0; c < kCores; ++c) core[c].add(other.core[c].ticks, other.core[c].unit);
  }
  const Core& busiest() const {
    return *std::max_element(core, core + kCores, [](const Core& a, const Core& b) { return a.ticks < b.ticks; });
  }
  Core all() const {
    Core sum;
    for (const Core& one : core) sum.add(one.ticks, one.unit);
    return sum;
  }
};

class Launch {
 public:
  Launch(const Program& program, const AddressSpace& space, const uint32_t grid[3], std::span<const std::byte> args,
         const Limits& limits)
      : program_(program),
        space_(space),
        grid_(grid),
        args_(args),
        limits_{limits.ticks > kLaunchTicks ? limits.ticks - kLaunchTicks : 0, limits.deadline, limits.cancelled},
        budget_of_all_(limits_.ticks > kNone / kCores ? kNone : limits_.ticks * kCores),
        blocks_(uint64_t{grid[0]} * grid[1] * grid[2]),
        streaming_(blocks_ >= kStreamingLanes / program.lanes()) {}

  void alone(RegisterFile& file) {
    Block block = make(file);
    for (uint64_t i = 0; i < blocks_ && one(block, i, tally_); ++i) continue;
    program_.kernels().stream_fence();
  }

  void spread(Pool::State& pool) {
    const uint64_t threads = pool.files.size();
    uint64_t per_block = 0;
    const uint64_t done = probe(pool.files[0], per_block);
    program_.kernels().stream_fence();
    if (done == blocks_) return;
    for (RegisterFile& file : pool.files) file.reserve(program_.file_bytes()); /* may throw: not in a worker */
    const uint64_t fair = (blocks_ - done) / (threads * 4) + 1;
    const uint64_t chunk = std::min(fair, kChunk / (per_block + 1) + 1);
    next_.store(done);
    spent_.store(tally_.total);
    std::mutex mutex;
    pool.together([&](unsigned thread) {
      Tally mine;
      Block block = make(pool.files[thread]);
      while (take(block, chunk, mine)) continue;
      program_.kernels().stream_fence();
      const std::lock_guard lock(mutex);
      tally_.add(mine);
    });
  }

  bool finish(Cost& cost, Fault& fault) const {
    cost.ticks = kLaunchTicks + tally_.busiest().ticks;
    cost.total = tally_.all().units();
    cost.busiest = tally_.busiest().units();
    cost.memory_bytes = tally_.memory_bytes;
    if (fault_block_.load() != kNone) {
      fault = fault_;
      return false;
    }
    if (tally_.total <= budget_of_all_ && cost.ticks - kLaunchTicks <= limits_.ticks) return true;
    fault = Fault{};
    fault.status = EMU_ERROR_BUDGET;
    std::snprintf(fault.cause, sizeof fault.cause, "the launch used %llu ticks or more, it may use %llu",
                  static_cast<unsigned long long>(cost.ticks),
                  static_cast<unsigned long long>(limits_.ticks + kLaunchTicks));
    return false;
  }

 private:
  Block make(RegisterFile& file) const { return Block(program_, space_, grid_, args_, limits_, streaming_, file); }

  /* Does the first blocks on this thread until the rest is known to be worth waking workers for, or done. */
  uint64_t probe(RegisterFile& file, uint64_t& per_block) {
    Block block = make(file);
    const uint64_t start = now();
    for (uint64_t i = 0; i < blocks_; ++i) {
      if (!one(block, i, tally_)) return blocks_;
      const uint64_t done = i + 1;
      if ((done & i) != 0) continue; /* look at the clock at powers of two */
      per_block = (now() - start) / done;
      if ((per_block + 1) * (blocks_ - done) > kWorthWaking) return done;
    }
    return blocks_;
  }

  /* The next chunk of blocks. False when there is no more to do. Chunks are taken in ascending order, so when a
   * block faults all lower ones are in hand, and are still done: the lowest fault doesn't depend on timing. */
  bool take(Block& block, uint64_t chunk, Tally& tally) {
    const uint64_t first = next_.fetch_add(chunk);
    if (first >= blocks_) return false;
    const uint64_t end = std::min(blocks_, first + chunk), before = tally.total;
    for (uint64_t i = first; i < end; ++i)
      if (!one(block, i, tally)) return false;
    const uint64_t more = tally.total - before;
    return spent_.fetch_add(more) + more <= budget_of_all_;
  }

  bool one(Block& block, uint64_t i, Tally& tally) {
    if (i > fault_block_.load(std::memory_order_relaxed)) return false;
    const bool good = block.run(i);
    tally.add(i, block);
    if (!good) {
      note(i, block.fault);
      return false;
    }
    return tally.total <= budget_of_all_;
  }

  void note(uint64_t i, const Fault& fault) {
    const std::lock_guard lock(fault_mutex_);
    if (i >= fault_block_.load()) return;
    fault_ = fault;
    fault_block_.store(i);
  }

  const Program& program_;
  const AddressSpace& space_;
  const uint32_t* grid_;
  const std::span<const std::byte> args_;
  const Limits limits_;          /* ticks are of one core, launch cost taken off */
  const uint64_t budget_of_all_; /* beyond it some core is beyond its own, so the launch can be ended early */
  const uint64_t blocks_;
  const bool streaming_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> spent_{0};
  std::atomic<uint64_t> fault_block_{kNone};
  std::mutex fault_mutex_;
  Fault fault_;
  Tally tally_;
};

bool refuse(Fault& fault, const std::string& cause) {
  fault = Fault{};
  fault.status = EMU_ERROR_INVALID_ARGUMENT;
  std::snprintf(fault.cause, sizeof fault.cause, "%s", cause.c_str());
  return false;
}

bool grid_ok(const uint32_t grid[3], Fault& fault) {
  uint64_t blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0)
      return refuse(fault,
                    "grid: expected at least one block along each axis, got none along axis " + std::to_string(axis));
    if (blocks > kBlocksMost / grid[axis]) return refuse(fault, "grid: expected at most 2^40 blocks, got more");
    blocks *= grid[axis];
  }
  return true;
}

}  // namespace

bool run(const Program& program, const AddressSpace& space, const uint32_t grid[3], std::span<const std::byte> args,
         const Limits& limits, Pool& pool, Cost& cost, Fault& fault) {
  cost = Cost();
  if (!grid_ok(grid, fault)) return false;
  if (args.size() != program.args())
    return refuse(fault, "arguments: expected the " + std::to_string(program.args()) + " bytes of .args, got " +
                             std::to_string(args.size()));
  Launch launch(program, space, grid, args, limits);
  if (const std::unique_lock user(pool.state().user, std::try_to_lock); user.owns_lock()) {
    if (pool.threads() > 1 && !program.ordered()) launch.spread(pool.state());
    else launch.alone(pool.state().files[0]);
  } else {
    RegisterFile file;
    launch.alone(file);
  }
  return launch.finish(cost, fault);
}

}  // namespace emu::machine
