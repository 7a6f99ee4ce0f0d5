// The N-th call that libemurt and libemudrv make of their host fails, for N = 1, 2, 3 and on, until each step of a
// life goes by without. Who asked is told, the step works when it is asked again, and nothing is left over.
//
// failing_call_cases LIBEMURT LIBEMUDRV, with failing_calls.so of the driver's tests preloaded, on an emud of its own.
// Status 0: it held; 1: a line on standard error says what did not.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "emu/driver.h"
#include "emu/runtime.h"
#include "failing_calls.h"
#include "harness.h"

namespace {

using emu::test::descriptors;
using emu::test::fail;
using emu::test::FailingCalls;
using emu::test::mappings;
using emu::test::Served;

const emurt_api* api = nullptr;
FailingCalls* calls = nullptr;

std::string cause() {
  emurt_error error{};
  error.size = sizeof error;
  api->last_error(&error);
  return error.cause;
}

std::string told(int32_t status) { return std::string(api->status_name(status)) + " '" + cause() + "'"; }

const char* const kWrite =
    ".program write\n.lanes 64\n.args 16\n  arg.i64 s0, 0\n  arg.i32 s1, 8\n  sstore.i32 s1, s0\n  exit\n";
constexpr uint32_t kSaid = 0xdecafbad;
constexpr uint32_t kGrid[3] = {1, 1, 1};

struct Life {
  uint64_t address = 0;
  void* pinned = nullptr;
  emurt_stream stream = nullptr;
  emurt_event start = nullptr, end = nullptr;
  emurt_module module = nullptr;
  uint32_t word = 0;
};

struct Step {
  const char* name;
  std::function<int32_t(Life&)> run;
};

template <typename T>
int32_t read(int32_t (*entry)(int32_t, T*)) {
  T out{};
  out.size = sizeof out;
  return entry(0, &out);
}

int32_t launch(Life& life) {
  const uint64_t arguments[2] = {life.address, kSaid};
  return api->launch(0, life.stream, life.module, kGrid, arguments, sizeof arguments);
}

int32_t read_records(Life&) {
  emurt_activity records[16];
  size_t count = 0;
  uint64_t dropped = 0;
  return api->activity_read(records, 16, &count, &dropped);
}

int32_t free_memory(Life& life) {
  const int32_t status = api->memory_free(0, life.address);
  if (status == EMURT_OK) life.address = 0;
  return status;
}

int32_t free_pinned(Life& life) {
  const int32_t status = api->host_free(life.pinned);
  if (status == EMURT_OK) life.pinned = nullptr;
  return status;
}

int32_t elapsed(Life& life) {
  double device = 0, host = 0;
  return api->event_elapsed(life.start, life.end, &device, &host);
}

const std::vector<Step> kSteps = {
    {"device_count",
     [](Life&) {
       uint32_t count = 0;
       return api->device_count(&count);
     }},
    {"device_properties", [](Life&) { return read(api->device_properties); }},
    {"device_telemetry", [](Life&) { return read(api->device_telemetry); }},
    {"memory_alloc", [](Life& life) { return api->memory_alloc(0, 4096, nullptr, &life.address); }},
    {"host_alloc", [](Life& life) { return api->host_alloc(4096, &life.pinned); }},
    {"stream_create", [](Life& life) { return api->stream_create(0, 0, &life.stream); }},
    {"event_create", [](Life& life) { return api->event_create(0, 1, &life.start); }},
    {"another event_create", [](Life& life) { return api->event_create(0, 1, &life.end); }},
    {"module_get", [](Life& life) { return api->module_get(0, kWrite, strlen(kWrite), &life.module); }},
    {"activity_enable", [](Life&) { return api->activity_enable(1); }},
    {"fill", [](Life& life) { return api->fill(0, nullptr, life.address, 1, 4096); }},
    {"copy from pinned",
     [](Life& life) { return api->copy(0, nullptr, EMURT_COPY_TO_DEVICE, life.pinned, life.address, 0, 4096); }},
    {"copy from pageable",
     [](Life& life) { return api->copy(0, nullptr, EMURT_COPY_TO_DEVICE, &life.word, life.address, 0, 4); }},
    {"event_record", [](Life& life) { return api->event_record(life.start, nullptr); }},
    {"stream_wait_event", [](Life& life) { return api->stream_wait_event(0, life.stream, life.start); }},
    {"launch", launch},
    {"another event_record", [](Life& life) { return api->event_record(life.end, life.stream); }},
    {"event_synchronize", [](Life& life) { return api->event_synchronize(life.end); }},
    {"event_elapsed", elapsed},
    {"copy to pageable",
     [](Life& life) {
       return api->copy(0, life.stream, EMURT_COPY_FROM_DEVICE, &life.word, life.address, 0, sizeof life.word);
     }},
    {"device_synchronize", [](Life&) { return api->device_synchronize(0); }},
    {"activity_read", read_records},
    {"memory_record", [](Life& life) { return api->memory_record(0, life.address, life.stream); }},
    {"memory_free", free_memory},
    {"host_free", free_pinned},
    {"event_destroy", [](Life& life) { return api->event_destroy(life.start); }},
    {"another event_destroy", [](Life& life) { return api->event_destroy(life.end); }},
    {"stream_destroy", [](Life& life) { return api->stream_destroy(life.stream); }},
    {"memory_empty_cache", [](Life&) { return api->memory_empty_cache(0); }},
    {"device_reset", [](Life&) { return api->device_reset(0); }},
};

std::string failed_call;

// One life in which call `number` of step `failing` fails. False: the step makes fewer.
bool live(size_t failing, uint64_t number) {
  Life life;
  bool failed = false;
  for (size_t index = 0; index < kSteps.size(); ++index) {
    const Step& step = kSteps[index];
    calls->count = 0;
    calls->fail_at = number;
    calls->failed = "";
    calls->armed = index == failing;
    const int32_t status = step.run(life);
    calls->armed = false;
    if (index == failing) {
      failed = calls->count >= number;
      failed_call = calls->failed;
    }
    const std::string trace = std::string(step.name) + ", call " + std::to_string(number) + ", " + calls->failed +
                              (index == failing ? ", fails: " : ", is not to fail: ");
    const auto wrong = [&](const std::string& what) { fail(__FILE__, __LINE__, trace + what); };
    if (status != EMURT_OK) {
      const std::string name = calls->failed;
      const bool fits = status == EMU_ERROR_HOST || status == EMU_ERROR_OUT_OF_MEMORY ||
                        (status == EMU_ERROR_DEVICE_LOST && name == "recvmsg") ||
                        (status == EMU_ERROR_NO_DEVICE && name == "connect");
      if (index != failing || !failed || !fits || cause().empty()) wrong("got " + told(status));
      if (status == EMU_ERROR_DEVICE_LOST) {
        const int32_t given_back[] = {api->device_reset(0),  // what there is: a call about nothing opens the device
                                      life.address == 0 ? EMURT_OK : api->memory_free(0, life.address),
                                      life.pinned == nullptr ? EMURT_OK : api->host_free(life.pinned)};
        for (const int32_t each : given_back) {
          if (each != EMURT_OK) wrong("what is given back then, got " + told(each));
        }
        break;
      }
      if (const int32_t again = step.run(life); again != EMURT_OK) wrong("asked again, got " + told(again));
    }
    if (strcmp(step.name, "copy to pageable") == 0 && life.word != kSaid) wrong("another word was read");
  }
  return failed;
}

int64_t descriptors_before = 0;

// Tables that grew stay so, and so does what the next life replaces: a leak grows each time.
void nothing_is_left(size_t step, uint64_t number) {
  static int64_t most = 0;
  const std::string trace =
      std::string(kSteps[step].name) + ", call " + std::to_string(number) + ", " + failed_call + ": ";
  for (int grown = 0; calls->live > most; ++grown) {
    if (grown == 3) {
      fail(__FILE__, __LINE__, trace + "more allocations are left each time, " + std::to_string(calls->live) + " now");
    }
    most = calls->live;
    live(step, number);
  }
  const int64_t open = descriptors("self"), mapped = mappings("self", "emu-");
  if (open == descriptors_before && mapped == 0) return;
  fail(__FILE__, __LINE__,
       trace + "expected " + std::to_string(descriptors_before) + " descriptors and no mapping, got " +
           std::to_string(open) + " and " + std::to_string(mapped));
}

void cases(const char* runtime, const char* driver) {
  const Served device;
  calls = static_cast<FailingCalls*>(dlsym(RTLD_DEFAULT, emu::test::kFailingCalls));
  CHECK(calls != nullptr);  // failing_calls.so is preloaded
  void* library = dlopen(runtime, RTLD_NOW);
  if (library == nullptr) fail(__FILE__, __LINE__, dlerror());
  const auto get_api = reinterpret_cast<emurt_get_api_fn>(dlsym(library, "emurt_get_api"));
  api = get_api(EMURT_INTERFACE, driver, nullptr);
  live(kSteps.size(), 0);  // what is kept for ever is there now
  descriptors_before = descriptors("self");
  uint64_t all = 0;
  for (size_t step = 0; step < kSteps.size(); ++step) {
    uint64_t number = 1;
    for (; live(step, number); ++number) nothing_is_left(step, number);
    nothing_is_left(step, number);
    number -= 1;
    printf("%s: %llu calls failed, one at a time\n", kSteps[step].name, static_cast<unsigned long long>(number));
    all += number;
  }
  CHECK(all > 100);  // they are counted
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    fprintf(stderr, "usage: failing_call_cases LIBEMURT LIBEMUDRV\n");
    return 2;
  }
  unsetenv("LD_PRELOAD");  // emud's calls are its own
  const std::filesystem::path emud = std::filesystem::path(words[2]).parent_path() / "../bin/emud";
  return emu::test::supervise(emud, [&] { cases(words[1], words[2]); });
}
