/* machine_threads: one pool under many launches, from two threads at once. For the thread sanitizer: each block
 * writes its own word, so that any race it reports is the engine's. */
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "machine.h"

using namespace emu::machine;

namespace {

constexpr uint32_t kBlocks = 3000, kLaunches = 60;
constexpr unsigned kPageShift = 16;

const char* const kText = R"(.program count .lanes 64 .args 8
arg.i64 s0, 0
block s1, 0
const.i64 s2, 8
mul.i64 s3, s1, s2
add.i64 s0, s0, s3
const.i64 s4, 100
loop s5, s4
end
sload.i64 s6, s0
add.i64 s6, s6, s1
sstore.i64 s6, s0
exit
)";

bool launches(const Program& program, Pool& pool) {
  std::vector<uint64_t> words(1 << 14);
  std::vector<uint8_t> pages(2, kPageRead | kPageWrite);
  const AddressSpace space{reinterpret_cast<std::byte*>(words.data()), words.size() * 8, pages.data(), kPageShift};
  const uint32_t grid[3] = {kBlocks, 1, 1};
  const uint64_t address = 0;
  std::byte args[8];
  std::memcpy(args, &address, sizeof args);
  for (uint32_t i = 0; i < kLaunches; ++i) {
    Cost cost;
    Fault fault;
    if (!run(program, space, grid, args, Limits{.ticks = uint64_t{1} << 40}, pool, cost, fault)) {
      std::fprintf(stderr, "%s\n", fault.cause);
      return false;
    }
  }
  for (uint64_t b = 0; b < kBlocks; ++b)
    if (words[b] != b * kLaunches) return false;
  return true;
}

}  // namespace

int main() {
  std::string why;
  const auto binary = assemble(kText, why);
  const ProgramPtr program = binary ? load(*binary, why) : nullptr;
  if (program == nullptr) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  bool first = false, second = false;
  {
    Pool pool(4);
    std::thread other([&] { second = launches(*program, pool); });
    first = launches(*program, pool);
    other.join();
  }
  for (int i = 0; i < 50; ++i) Pool short_lived(3);
  if (first && second) return 0;
  std::fprintf(stderr, "expected each block to run once a launch, got another count\n");
  return 1;
}
