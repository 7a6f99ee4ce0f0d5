/* machine_fuzz COUNT SEED: mutated programs through the verifier, the disassembler and the interpreter.
 *
 * Of each program that the verifier lets through: its text assembles to the same bytes; it ends, within its tick
 * budget; memory that its pages don't allow is as it was. Run under sanitizers, it also touches no other memory of
 * the process. Ends with status 1 if any of that fails, or if too few programs got through for it to mean much. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "encoding.h"
#include "machine.h"

using namespace emu::machine;

namespace {

constexpr unsigned kPageShift = 12; /* small pages, so that accesses meet holes */
constexpr uint64_t kPages = 16;
constexpr uint64_t kBudget = 60000;
constexpr uint8_t kPattern = 0x5a;

const char* const kSeeds[] = {
    R"(.program lanes .lanes 256 .args 32
arg.i64 s0, 0
arg.f32 s1, 8
arg.i32 s2, 12
block s3, 0
setvl s4, s2
load.f32 v0, s0
const.f32 v1, 1.5
fma.f32 v2, v0, v1, s1
exp.f32 v3, v2
cmp.lt.f32 p0, v0, v3
pnot p1, p0
sel.f32 v4, p1, v0, s1
lane.i64 v5
const.i64 s5, 4
mul.i64 v5, v5, s5
@p0 gather.f32 v4, s0, v5
@!p0 scatter.f32 v4, s0, v5
reduce.sum.f32 s6, v4
argreduce.max.f32 s7, v4
any s8, p1
store.f32 v4, s0
exit
)",
    R"(.program loops .lanes 64 .args 16
arg.i64 s0, 0
const.i64 s1, 5
const.i64 s2, 8
const.i32 v0, 0
const.i32 v1, 3
loop s3, s1
loop s4, s3
add.i32 v0, v0, s4
skipz s4, next
mul.i32 v0, v0, v0
next: end
loads.i32 v1, s0, s2
stores.i32 v0, s0, s2
end
cvt.f16.i32 v2, v0
cvt.trunc.f64.f16 v3, v2
cvt.u8.f64 v4, v3
div.u8 v4, v4, v4
shl.i32 v0, v0, v1
rem.i32 v0, v0, v1
sload.i16 s5, s0
sstore.i64 s5, s0
exit
)",
    R"(.program tiles .lanes 64 .args 24
arg.i64 s0, 0
const.i64 s1, 5
const.i64 s2, 7
const.i64 s3, 64
mzero.f32 m0, s1, s2
mload.f32 m1, s0, s3, s1, s1
mload.column.f32 m2, s0, s3, s1, s2
mma.f32 m0, m1, m2
mstore.f32 m0, s0, s3
mstore.column.f32 m0, s0, s3
mzero.f64 m3, s2, s2
mzero.f64 m4, s2, s2
mma.f64 m4, m3, m3
mstore.f64 m4, s0, s3
mload.f16 m5, s0, s3, s1, s1
mload.column.f16 m6, s0, s3, s1, s2
mmaw.f32.f16 m0, m5, m6
mcvt.even_sat.f8e4m3.f32 m7, m0
mstore.f8e4m3 m7, s0, s3
mload.i8 m5, s0, s3, s1, s1
mload.i8 m6, s0, s3, s1, s2
mzero.i32 m7, s1, s2
mmai.i32.i8 m7, m5, m6
mstore.i32 m7, s0, s3
exit
)",
    R"(.program memory .lanes 128 .args 16
arg.i64 s0, 0
arg.i32 s1, 12
setvl s2, s1
lane.i64 v1
const.i64 s3, 8
mul.i64 v1, v1, s3
load.i32 v2, s0
lane.i64 v3
const.i64 s4, 60
cmp.lt.i64 p0, v3, s4
const.i32 v0, 0
gatherb.fill.i32 v0, s0, v3, s4
@p0 gatherb.fault.i32 v0, s0, v3, s4
@p0 scatterb.fault.i32 v0, s0, v3, s4
scatterb.drop.i32 v0, s0, v3, s4
red.xor.i32 v0, s0, v1
const.i32 v4, 0
@!p0 atom.add.i32 v4, s0, v1, v0
atom.swap.i32 v4, s0, v1, v2
@p0 atom.max.i32 v4, s0, v1, v2
cas.i32 v5, s0, v1, v4, v2
philox.w2.i32 v6, s0, s1, v1
scan.sum.i32 v6, v6
scanx.max.i32 v6, v6
cvt.f32.i32 v7, v6
cvtsr.sat.f8e4m3.f32 v8, v7, v6
cvt.trunc_sat.i8.f8e4m3 v9, v8
mulh.i8 v9, v9, v9
ctz.i8 v9, v9
sin.f32 v7, v7
erf.f32 v7, v7
pow.f32 v7, v7, v7
cvt.f64.f32 v10, v7
log1p.f64 v10, v10
cos.f64 v10, v10
rsqrt.f64 v10, v10
store.f64 v10, s0
exit
)"};

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {
    for (const char* text : kSeeds) {
      std::string why;
      const auto binary = assemble(text, why);
      if (!binary) {
        std::fprintf(stderr, "seed: %s\n", why.c_str());
        std::exit(1);
      }
      seeds_.push_back(*split(*binary, why));
    }
  }

  bool one() {
    const std::vector<std::byte> bytes = mutate();
    std::string why;
    const ProgramPtr program = load(bytes, why);
    if (program == nullptr) return why.empty() ? complain("refused without a reason") : true;
    ++accepted;
    return same_text(bytes) && runs(*program);
  }

  bool text() {
    std::string mutated = kSeeds[below(std::size(kSeeds))];
    for (uint64_t n = 1 + below(4); n > 0; --n) mutated[below(mutated.size())] = static_cast<char>(below(128));
    std::string why;
    const auto binary = assemble(mutated, why);
    return binary ? load(*binary, why) != nullptr || complain("what assembles does not load") : !why.empty();
  }

  uint64_t accepted = 0, ran = 0;

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  bool complain(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    return false;
  }

  std::vector<std::byte> mutate() {
    Binary binary = seeds_[below(seeds_.size())];
    for (uint64_t n = 1 + below(3); n > 0; --n) change(binary);
    if (below(20) != 0) binary.header.instructions = static_cast<uint32_t>(binary.code.size());
    std::vector<std::byte> bytes = join(binary);
    if (below(10) == 0) bytes[below(bytes.size())] = static_cast<std::byte>(below(256));
    if (below(40) == 0) bytes.resize(below(bytes.size()));
    return bytes;
  }

  void change(Binary& binary) {
    const size_t at = below(binary.code.size());
    Instruction& in = binary.code[at];
    switch (below(9)) {
      case 0: in.op = static_cast<uint16_t>(kOps[below(std::size(kOps))].op); break;
      case 1: in.type = static_cast<uint8_t>(kTypes[below(std::size(kTypes))].type); break;
      case 2: in.operands[below(5)] = static_cast<uint8_t>(below(4) << 6 | below(9)); break;
      case 3: in.mode = static_cast<uint8_t>(below(7)); break;
      case 4: in.imm = below(2) != 0 ? below(80) : random_() >> below(64); break;
      case 5: in.mask = below(2) != 0 ? kUnused : static_cast<uint8_t>(below(2) << 7 | below(3)); break;
      case 6: binary.code.insert(binary.code.begin() + static_cast<std::ptrdiff_t>(at), Instruction(in)); break;
      case 7: std::swap(in, binary.code[below(binary.code.size())]); break;
      default:
        if (binary.code.size() > 1) binary.code.erase(binary.code.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  bool same_text(const std::vector<std::byte>& bytes) {
    std::string why;
    const auto text = disassemble(bytes, why);
    if (!text) return complain("loads and does not disassemble");
    const auto again = assemble(*text, why);
    if (!again) return complain(("its own text does not assemble: " + why).c_str());
    return *again == bytes || complain("its own text assembles to other bytes");
  }

  bool runs(const Program& program) {
    std::vector<uint8_t> pages(kPages), memory(kPages << kPageShift, kPattern);
    for (uint8_t& page : pages) page = static_cast<uint8_t>(below(6) == 0 ? below(4) : 3);
    std::vector<std::byte> args(args_bytes(program));
    const uint64_t base = (below(2) * below(uint64_t{1} << 25)) << 38; /* of a process's first context, or a later */
    const uint64_t address = base + below(memory.size()) / 8 * 8;
    const uint32_t numbers[2] = {0x3fc00000, static_cast<uint32_t>(below(300))};
    if (args.size() >= 8) std::memcpy(args.data(), &address, 8);
    if (args.size() >= 16) std::memcpy(args.data() + 8, numbers, 8);
    const AddressSpace space{reinterpret_cast<std::byte*>(memory.data()), memory.size(), pages.data(), kPageShift,
                             base};
    const uint32_t grid[3] = {3, 1, 1};
    Cost cost;
    Fault fault;
    if (run(program, space, grid, args, Limits{.ticks = kBudget}, pool_, cost, fault)) {
      ++ran;
      if (cost.ticks > kBudget) return complain("used more than its budget");
    } else if (fault.status == EMU_OK || fault.cause[0] == 0) {
      return complain("a fault without status or cause");
    }
    for (uint64_t i = 0; i < memory.size(); ++i)
      if ((pages[i >> kPageShift] & kPageWrite) == 0 && memory[i] != kPattern)
        return complain("wrote to a page that it may not write");
    return true;
  }

  std::mt19937_64 random_;
  std::vector<Binary> seeds_;
  Pool pool_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: machine_fuzz COUNT SEED\n");
    return 2;
  }
  const uint64_t count = std::strtoull(argv[1], nullptr, 10);
  Fuzzer fuzzer(std::strtoull(argv[2], nullptr, 10));
  for (uint64_t i = 0; i < count; ++i) {
    if (fuzzer.one() && fuzzer.text()) continue;
    std::fprintf(stderr, "at program %llu of seed %s\n", static_cast<unsigned long long>(i), argv[2]);
    return 1;
  }
  std::printf("%llu programs: %llu let through, %llu ran to their end\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(fuzzer.accepted), static_cast<unsigned long long>(fuzzer.ran));
  return fuzzer.accepted >= count / 20 && fuzzer.ran >= count / 50 ? 0 : 1;
}
