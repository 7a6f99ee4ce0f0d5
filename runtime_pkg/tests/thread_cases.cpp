// Several threads in the runtime at once: what the sanitizers should see.
//
// runtime_cases LIBEMURT LIBEMUDRV CASE runs one case in this process, with a private device.
// Status 0: it held; 1: a line on standard error says what did not.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "emu/driver.h"
#include "emu/runtime.h"

namespace {

const emurt_api* api = nullptr;

std::map<std::string, void (*)()>& cases() {
  static std::map<std::string, void (*)()> all;
  return all;
}

struct Case {
  Case(const char* name, void (*body)()) { cases()[name] = body; }
};

#define CASE(name)                              \
  void name();                                  \
  const Case registered_##name(#name, name);    \
  void name()

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                \
    }                                                                          \
  } while (false)

void ok(int32_t status) {
  if (status == EMURT_OK) return;
  emurt_error error{};
  error.size = sizeof error;
  api->last_error(&error);
  fprintf(stderr, "status %d: %s. %s\n", status, error.cause, error.mend);
  _exit(1);
}

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back(body, number);
  for (std::thread& thread : threads) thread.join();
}

emurt_module module_of(const std::string& text) {
  emurt_module module = nullptr;
  ok(api->module_get(0, text.data(), text.size(), &module));
  return module;
}

const char* const kWrite =
    ".program write\n.lanes 64\n.args 16\n  arg.i64 s0, 0\n  arg.i32 s1, 8\n  sstore.i32 s1, s0\n  exit\n";

void write_word(emurt_stream stream, uint64_t address, uint64_t value) {
  const uint64_t arguments[2] = {address, value};
  const uint32_t grid[3] = {1, 1, 1};
  ok(api->launch(0, stream, module_of(kWrite), grid, arguments, sizeof arguments));
}

uint32_t read_word(emurt_stream stream, uint64_t address) {
  uint32_t value = 0;
  ok(api->copy(0, stream, EMURT_COPY_FROM_DEVICE, &value, address, 0, sizeof value));
  return value;
}

constexpr int kThreads = 4;
constexpr int kRounds = 200;

CASE(first_use_from_all_threads) {
  on_threads(8, [](int number) {
    uint64_t address = 0;
    ok(api->memory_alloc(0, 512, nullptr, &address));
    write_word(nullptr, address, static_cast<uint64_t>(number));
    CHECK(read_word(nullptr, address) == static_cast<uint32_t>(number));
    ok(api->memory_free(0, address));
  });
}

CASE(memory_launches_and_copies) {
  on_threads(kThreads, [](int number) {
    emurt_stream stream = nullptr;
    ok(api->stream_create(0, 0, &stream));
    for (int round = 0; round < kRounds; ++round) {
      const auto value = static_cast<uint32_t>(number * 1000 + round);
      uint64_t address = 0;
      ok(api->memory_alloc(0, 512u * static_cast<uint32_t>(round % 9 + 1), stream, &address));
      write_word(stream, address, value);
      CHECK(read_word(stream, address) == value);
      ok(api->memory_record(0, address, nullptr));
      ok(api->memory_free(0, address));
    }
    ok(api->stream_destroy(stream));
  });
  emurt_memory_stats stats{};
  stats.size = sizeof stats;
  ok(api->memory_empty_cache(0));
  ok(api->memory_stats(0, &stats));
  CHECK(stats.allocated_bytes == 0);
  CHECK(stats.allocations == kThreads * kRounds);
}

CASE(large_pageable_copies_share_the_staging_ring) {
  on_threads(kThreads, [](int number) {
    const size_t bytes = (9u << 20) + 5;
    std::vector<char> there(bytes, static_cast<char>(number + 1));
    std::vector<char> back(bytes);
    uint64_t address = 0;
    ok(api->memory_alloc(0, bytes, nullptr, &address));
    for (int round = 0; round < 4; ++round) {
      ok(api->copy(0, nullptr, EMURT_COPY_TO_DEVICE, there.data(), address, 0, bytes));
      ok(api->copy(0, nullptr, EMURT_COPY_FROM_DEVICE, back.data(), address, 0, bytes));
      CHECK(there == back);
    }
    ok(api->memory_free(0, address));
  });
}

CASE(events_and_pinned_memory) {
  emurt_event shared = nullptr;
  ok(api->event_create(0, 1, &shared));
  on_threads(kThreads, [&](int) {
    emurt_stream stream = nullptr;
    ok(api->stream_create(0, 0, &stream));
    uint64_t address = 0;
    ok(api->memory_alloc(0, 4096, stream, &address));
    for (int round = 0; round < kRounds; ++round) {
      void* pinned = nullptr;
      ok(api->host_alloc(4096, &pinned));
      memset(pinned, round, 4096);
      ok(api->copy(0, stream, EMURT_COPY_TO_DEVICE, pinned, address, 0, 4096));
      ok(api->host_free(pinned));
      emurt_event start = nullptr;
      ok(api->event_create(0, 1, &start));
      ok(api->event_record(start, stream));
      ok(api->event_record(shared, stream));
      ok(api->stream_wait_event(0, nullptr, shared));
      double device_ms = 0;
      ok(api->event_elapsed(start, shared, &device_ms, nullptr));
      ok(api->event_destroy(start));
    }
    ok(api->stream_destroy(stream));
  });
}

CASE(one_program_many_first_uses) {
  for (int round = 0; round < 20; ++round) {
    const std::string text = std::string(kWrite) + std::string(static_cast<size_t>(round), '\n');
    std::vector<emurt_module> modules(8);
    on_threads(8, [&](int number) { modules[static_cast<size_t>(number)] = module_of(text); });
    for (emurt_module module : modules) CHECK(module == modules[0]);
  }
  emurt_counters counters{};
  counters.size = sizeof counters;
  ok(api->device_counters(0, &counters));
  CHECK(counters.module_misses == 20);
}

CASE(activity_is_read_while_it_is_made) {
  ok(api->activity_enable(1));
  std::atomic<bool> stop{false};
  std::atomic<size_t> seen{0};
  std::thread reader([&] {
    std::vector<emurt_activity> records(64);
    for (bool last = false; !last;) {
      last = stop.load();
      size_t count = 0;
      uint64_t dropped = 0;
      do {
        ok(api->activity_read(records.data(), records.size(), &count, &dropped));
        CHECK(dropped == 0);
        seen += count;
      } while (count > 0);
    }
  });
  on_threads(kThreads, [](int number) {
    uint64_t address = 0;
    ok(api->memory_alloc(0, 512, nullptr, &address));
    for (int round = 0; round < kRounds; ++round) {
      api->correlation_push(static_cast<uint64_t>(number));
      write_word(nullptr, address, 1);
      api->correlation_pop();
    }
  });
  ok(api->device_synchronize(0));
  stop = true;
  reader.join();
  CHECK(seen == kThreads * kRounds);
}

// Each call works, or says that what it used is gone: nothing hangs, crashes or reads freed memory.
CASE(reset_while_others_work) {
  std::atomic<bool> stop{false};
  std::atomic<int> worked{0};
  std::thread resetting([&] {
    for (int round = 0; round < 20; ++round) {
      const int before = worked;
      while (worked < before + kThreads) std::this_thread::yield();
      ok(api->device_reset(0));
    }
    stop = true;
  });
  on_threads(kThreads, [&](int) {
    while (!stop) {
      uint64_t address = 0;
      emurt_stream stream = nullptr;
      emurt_event event = nullptr;
      api->memory_alloc(0, 4096, nullptr, &address);
      api->stream_create(0, 0, &stream);
      api->event_create(0, 1, &event);
      if (event != nullptr) api->event_record(event, nullptr);
      if (event != nullptr) api->event_synchronize(event);
      api->memory_free(0, address);
      if (stream != nullptr) api->stream_destroy(stream);
      if (event != nullptr) api->event_destroy(event);
      ++worked;
    }
  });  resetting.join();
}

CASE(shutdown_while_others_work) {
  std::atomic<int> started{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&] {
      uint64_t address = 0;
      ok(api->memory_alloc(0, 512, nullptr, &address));
      ++started;
      const uint64_t arguments[2] = {address, 1};
      const uint32_t grid[3] = {1, 1, 1};
      const emurt_module module = module_of(kWrite);
      int32_t status = EMURT_OK;
      while (status == EMURT_OK) status = api->launch(0, nullptr, module, grid, arguments, sizeof arguments);
      CHECK(status == EMURT_ERROR_SHUT_DOWN);
    });
  }
  while (started < kThreads) std::this_thread::yield();
  ok(api->shutdown());
  for (std::thread& thread : threads) thread.join();
}

CASE(fork_while_others_work) {
  std::atomic<bool> stop{false};
  std::thread working([&] {
    uint64_t address = 0;
    ok(api->memory_alloc(0, 512, nullptr, &address));
    while (!stop) write_word(nullptr, address, 1);
  });
  uint64_t address = 0;
  ok(api->memory_alloc(0, 512, nullptr, &address));
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      uint32_t count = 0;
      _exit(api->device_count(&count) == EMURT_ERROR_FORKED && api->shutdown() == EMURT_OK ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  working.join();
}

}  // namespace

int main(int count, char** words) {
  if (count != 4 || cases().count(words[3]) == 0) {
    fprintf(stderr, "usage: runtime_cases LIBEMURT LIBEMUDRV CASE\n");
    return 2;
  }
  unsetenv("EMU_DEVICE_DIR");
  void* library = dlopen(words[1], RTLD_NOW);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  auto get_api = reinterpret_cast<emurt_get_api_fn>(dlsym(library, "emurt_get_api"));
  emurt_error error{};
  error.size = sizeof error;
  api = get_api(EMURT_INTERFACE, words[2], &error);
  if (api == nullptr || error.status != EMURT_OK) {
    fprintf(stderr, "%s\n", error.cause);
    return 2;
  }
  cases()[words[3]]();
  return 0;
}
