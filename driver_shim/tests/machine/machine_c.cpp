/* The engine behind a C interface, for the Python tests (machine.py loads it with ctypes). Not installed. */
#include <cstring>

#include "machine.h"

using namespace emu::machine;

namespace {

/* Copies as much as fits, zero-terminated. */
void copy_text(const std::string& text, char* to, size_t bytes) {
  const size_t n = text.size() < bytes ? text.size() : bytes - 1;
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

}  // namespace

extern "C" {

/* Bytes written to `out`, or -1 with the reason in `why`. */
__attribute__((visibility("default"))) int64_t machine_assemble(const char* text, size_t length, void* out,
                                                                size_t capacity, char* why, size_t why_bytes) {
  std::string reason;
  const auto binary = assemble({text, length}, reason);
  copy_text(reason, why, why_bytes);
  if (!binary || binary->size() > capacity) return -1;
  std::memcpy(out, binary->data(), binary->size());
  return static_cast<int64_t>(binary->size());
}

__attribute__((visibility("default"))) int64_t machine_disassemble(const void* binary, size_t length, char* out,
                                                                   size_t capacity, char* why, size_t why_bytes) {
  std::string reason;
  const auto text = disassemble({static_cast<const std::byte*>(binary), length}, reason);
  copy_text(reason, why, why_bytes);
  if (!text || text->size() > capacity) return -1;
  std::memcpy(out, text->data(), text->size());
  return static_cast<int64_t>(text->size());
}

__attribute__((visibility("default"))) int machine_best_level() { return static_cast<int>(best_level()); }

__attribute__((visibility("default"))) const void* machine_load(const void* binary, size_t length, int level, char* why,
                                                                size_t why_bytes) {
  std::string reason;
  ProgramPtr program = load({static_cast<const std::byte*>(binary), length}, static_cast<Level>(level), reason);
  copy_text(reason, why, why_bytes);
  return program.release();
}

__attribute__((visibility("default"))) void machine_unload(const void* program) {
  ProgramDeleter()(static_cast<const Program*>(program));
}

__attribute__((visibility("default"))) void* machine_pool(unsigned threads) { return new Pool(threads); }
__attribute__((visibility("default"))) void machine_pool_end(void* pool) { delete static_cast<Pool*>(pool); }

__attribute__((visibility("default"))) int machine_run(const void* program, void* window, uint64_t bytes,
                                                       uint64_t base, const uint8_t* pages, unsigned page_shift,
                                                       const uint32_t* grid,
                                                       const void* args, size_t args_length, uint64_t budget,
                                                       double seconds, const std::atomic<bool>* cancelled, void* pool,
                                                       Cost* cost, Fault* fault) {
  const AddressSpace space{static_cast<std::byte*>(window), bytes, pages, page_shift, base};
  const std::chrono::duration<double> most(seconds);
  const Limits limits{
      budget, std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(most), cancelled};
  return run(*static_cast<const Program*>(program), space, grid, {static_cast<const std::byte*>(args), args_length},
             limits, *static_cast<Pool*>(pool), *cost, *fault)
             ? 1
             : 0;
}

}  // extern "C"
