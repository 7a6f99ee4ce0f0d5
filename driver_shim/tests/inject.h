/* What cases about injected faults have in common. */
#ifndef EMU_TEST_INJECT_H
#define EMU_TEST_INJECT_H

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "harness.h"
#include "process.h"

namespace emu::test {

inline emu_fault fault_of(emu_fault_kind kind) {
  emu_fault fault{};
  fault.size = sizeof fault;
  fault.kind = kind;
  fault.queue = UINT32_MAX;
  fault.times = 1;
  return fault;
}

inline uint64_t inject(const Setup& setup, const emu_fault& fault) {
  uint64_t number = 0;
  OK(api->fault_inject(setup.device, &fault, &number));
  CHECK(number > 0);
  return number;
}

inline std::vector<emu_fault> faults(const Setup& setup) {
  std::vector<emu_fault> out(64);
  size_t count = 0;
  OK(api->fault_list(setup.device, out.data(), out.size(), &count));
  out.resize(count);
  return out;
}

/* The last event that is about a command, or about one that ended so. */
inline emu_event last_fault(const Setup& setup, std::optional<emu_status> status = {}) {
  std::vector<emu_event> events(1024);
  size_t count = 0;
  uint64_t dropped = 0;
  OK(api->event_read(setup.device, 0, events.data(), events.size(), &count, &dropped));
  emu_event found{};
  for (size_t i = 0; i < count; ++i) {
    if (events[i].kind == EMU_EVENT_FAULT && (!status || events[i].status == *status)) found = events[i];
  }
  CHECK(found.kind == EMU_EVENT_FAULT);
  return found;
}

inline uint64_t fill(emu_queue* queue, uint64_t address, uint8_t value, uint64_t bytes = 65536) {
  uint64_t sequence = 0;
  OK(api->queue_fill(queue, address, value, bytes, 0, &sequence));
  return sequence;
}

inline void finish(emu_queue* queue, uint64_t sequence) { OK(api->queue_synchronize(queue, sequence, 20'000'000'000)); }

/* A fill by the queue is seen in memory; `host` has 16 bytes, pinned. */
inline void works(emu_queue* queue, uint64_t address, uint8_t value, uint8_t* host) {
  finish(queue, fill(queue, address, value, 16));
  uint64_t sequence = 0;
  OK(api->queue_copy_from_device(queue, host, address, 16, 0, &sequence));
  finish(queue, sequence);
  for (int i = 0; i < 16; ++i) CHECK(host[i] == value);
}

inline void works(const Setup& setup, emu_queue* queue, uint64_t address, uint8_t value) {
  auto* host = setup.pinned<uint8_t>(16);
  works(queue, address, value, host);
  OK(api->host_free(setup.context, host));
}

inline emu_program* empty_of(const Setup& setup) { return setup.program(kEmpty); }

inline uint64_t launch(emu_queue* queue, emu_program* program) {
  uint64_t sequence = 0;
  OK(api->queue_launch(queue, program, kOneBlock, nullptr, 0, 0, &sequence));
  return sequence;
}

/* A second client of the device, in a process of its own: it works until it is told to end, and is always right. */
class Neighbour {
 public:
  Neighbour()
      : client_([this] {
          Setup setup;
          const uint64_t address = setup.alloc(65536);
          auto* host = setup.pinned<uint8_t>(16);
          unsigned rounds = 0;
          std::printf("ready\n");
          std::fflush(stdout);
          for (; access(stop().c_str(), F_OK) != 0; ++rounds) works(setup.queue, address, uint8_t(rounds), host);
          CHECK(rounds > 0);
        }) {
    CHECK(client_.line() == "ready");
  }
  ~Neighbour() {
    std::fclose(std::fopen(stop().c_str(), "w"));
    CHECK(client_.wait() == 0);
    unlink(stop().c_str());
  }

 private:
  static std::string stop() { return folder() + "/stop"; }
  Client client_;
};

inline emu_fault mine(emu_fault_kind kind) {
  emu_fault fault = fault_of(kind);
  fault.process = getpid();
  return fault;
}

} // namespace emu::test

#endif
