/* Test cases of the driver interface: each is a function that registers itself under a name
 * and ends the process with a message at the first thing that is not as expected. */
#ifndef EMU_TEST_HARNESS_H
#define EMU_TEST_HARNESS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "emu/driver.h"
#include "process.h"

namespace emu::test {

using Case = void (*)();
std::map<std::string, Case>& cases();
struct Register {
  Register(const char* name, Case run) { cases().emplace(name, run); }
};

extern const emu_driver_api* api;

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::exit(1);
}

inline emu_error last_error() {
  emu_error error{};
  error.size = sizeof error;
  api->last_error(&error);
  return error;
}

inline void expect_status(emu_status got, emu_status expected, const char* call, const char* file, int line) {
  if (got == expected) return;
  const emu_error error = last_error();
  fail(file, line, std::string(call) + ": expected " + api->status_name(expected) + ", got " + api->status_name(got) +
                       " (" + error.cause + "; " + error.mend + ")");
}

inline void expect_text(const char* text, const std::string& part, const char* file, int line) {
  if (std::strstr(text, part.c_str()) == nullptr) fail(file, line, "expected '" + part + "' in '" + text + "'");
}

#define CASE(name)                                            \
  static void case_##name();                                  \
  static const ::emu::test::Register register_##name(#name, case_##name); \
  static void case_##name()
#define CHECK(condition) \
  do { if (!(condition)) ::emu::test::fail(__FILE__, __LINE__, "expected " #condition); } while (false)
#define OK(call) ::emu::test::expect_status(call, EMU_OK, #call, __FILE__, __LINE__)
#define REFUSED(status, call) ::emu::test::expect_status(call, status, #call, __FILE__, __LINE__)
#define SAYS(text, part) ::emu::test::expect_text(text, part, __FILE__, __LINE__)

inline emu_telemetry telemetry(emu_device* device) {
  emu_telemetry now{};
  now.size = sizeof now;
  OK(api->device_telemetry(device, &now));
  CHECK(now.size == sizeof now);
  // In every reading.
  const uint64_t worked = now.spent_matrix_ticks + now.spent_vector_ticks + now.spent_memory_ticks +
                          now.spent_control_ticks + now.spent_copy_ticks;
  CHECK(worked == now.busy_ticks);
  CHECK(worked + now.spent_waiting_ticks + now.spent_idle_ticks == now.device_ticks);
  CHECK(now.to_device_ticks + now.from_device_ticks + now.on_device_ticks == now.copy_ticks);
  CHECK(now.queue_delay_most_ticks <= now.queue_delay_ticks && now.queue_delay_most_ns <= now.queue_delay_ns);
  CHECK(now.memory_used_bytes <= now.memory_peak_bytes);
  return now;
}

inline emu_device_info info_of(emu_device* device) {
  emu_device_info info{};
  info.size = sizeof info;
  OK(api->device_info(device, &info));
  return info;
}

/* An open device with one context and a queue of each kind; closed again at the end. */
struct Setup {
  explicit Setup(uint32_t index = 0) {
    OK(api->device_open(index, &device));
    const emu_device_info info = info_of(device);
    emud = info.emud_pid;
    if (info.is_private != 0) note_emud(emud);
    OK(api->context_create(device, &context));
    queue = make_queue(EMU_QUEUE_COMPUTE);
    copies = make_queue(EMU_QUEUE_COPY);
  }
  ~Setup() {
    OK(api->context_destroy(context));
    api->device_close(device);
  }
  emu_device* device = nullptr;
  emu_context* context = nullptr;
  emu_queue* queue = nullptr;
  emu_queue* copies = nullptr;
  int emud = 0; // its process

  emu_queue* make_queue(emu_queue_kind kind, int32_t priority = 0) const {
    emu_queue* made = nullptr;
    OK(api->queue_create(context, kind, priority, &made));
    return made;
  }
  uint64_t alloc(uint64_t bytes) const {
    uint64_t address = 0;
    OK(api->memory_alloc(context, bytes, &address));
    return address;
  }
  template <typename T = uint8_t>
  T* pinned(uint64_t count) const {
    void* pointer = nullptr;
    OK(api->host_alloc(context, count * sizeof(T), &pointer));
    return static_cast<T*>(pointer);
  }
  emu_program* program(const std::string& text) const { return load(context, text); }
  static emu_program* load(emu_context* into, const std::string& text) {
    emu_buffer binary{};
    OK(api->assemble(text.data(), text.size(), &binary));
    emu_program* program = nullptr;
    OK(api->program_load(into, binary.data, binary.bytes, &program));
    api->buffer_release(&binary);
    return program;
  }
  void to_device(uint64_t address, const void* pointer, uint64_t bytes) const {
    uint64_t sequence = 0;
    OK(api->queue_copy_to_device(queue, address, pointer, bytes, 0, &sequence));
    OK(api->queue_synchronize(queue, sequence, UINT64_MAX));
  }
  void from_device(void* pointer, uint64_t address, uint64_t bytes) const {
    uint64_t sequence = 0;
    OK(api->queue_copy_from_device(queue, pointer, address, bytes, 0, &sequence));
    OK(api->queue_synchronize(queue, sequence, UINT64_MAX));
  }
};

/* Two commands may race on device memory; the thread sanitizer takes that for a race of emud. And the address sanitizer
 * needs descriptors for its own checks. Such cases are skipped. */
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#ifdef __SANITIZE_ADDRESS__
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

constexpr uint32_t kOneBlock[3] = {1, 1, 1};
inline const std::string kEmpty = ".program empty\n.lanes 64\n.args 0\n exit\n";
/* Stores the i32 at offset 8 of the arguments to the address at offset 0. */
inline const std::string kStore =
    ".program store\n.lanes 64\n.args 16\n arg.i64 s0, 0\n arg.i32 s1, 8\n sstore.i32 s1, s0\n exit\n";
/* Counts to the i64 at offset 0: a program that takes as long as one likes. */
inline const std::string kCount =
    ".program count\n.lanes 64\n.args 8\n arg.i64 s0, 0\n loop s1, s0\n end\n exit\n";

} // namespace emu::test

#endif
