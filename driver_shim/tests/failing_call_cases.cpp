/* The N-th call that the client makes of its host fails, for N = 1, 2, 3 and on, until each step of a life goes by
 * without: allocations, messages, descriptors, mappings, waits for a fence. Who asked is told what it was, the step
 * works when it is asked again, and nothing is left over in the process or in emud. */
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "failing_calls.h"
#include "life.h"

using namespace emu::test;

namespace {

size_t index_of(const std::string& name) {
  for (size_t i = 0; i < kSteps.size(); ++i) {
    if (name == kSteps[i].name) return i;
  }
  fail(__FILE__, __LINE__, "no step " + name);
}

struct Footprint {
  int64_t live;
  int64_t descriptors, mappings, emud_descriptors, emud_mappings;
  bool operator==(const Footprint& other) const {
    return live == other.live && descriptors == other.descriptors && mappings == other.mappings &&
           emud_descriptors == other.emud_descriptors && emud_mappings == other.emud_mappings;
  }
  std::string text() const {
    return std::to_string(live) + " allocations, " + std::to_string(descriptors) + " descriptors, " +
           std::to_string(mappings) + " mappings, and of emud " + std::to_string(emud_descriptors) +
           " descriptors, " + std::to_string(emud_mappings) + " mappings";
  }
};

FailingCalls& the_calls() {
  unsetenv("LD_PRELOAD"); // emud's calls are its own
  auto* const calls = static_cast<FailingCalls*>(dlsym(RTLD_DEFAULT, kFailingCalls));
  CHECK(calls != nullptr);
  return *calls;
}

/* What `call` gives when call `number` of the host fails in it; `calls` tells whether there was one. */
emu_status call_failing(FailingCalls& calls, uint64_t number, const std::function<emu_status()>& call) {
  calls.count = 0;
  calls.fail_at = number;
  calls.failed = "";
  calls.armed = true;
  const emu_status status = call();
  calls.armed = false;
  return status;
}

/* What is wrong is told in its own words: too little on the host, or that a reply did not come. */
void judge(const FailingCalls& calls, emu_status status, const std::string& trace) {
  const emu_error error = last_error();
  if (calls.count < calls.fail_at) fail(__FILE__, __LINE__, trace + "nothing failed, got " + api->status_name(status));
  const std::string name = calls.failed;
  const bool fits = name == "connect"
                        ? status == EMU_ERROR_NO_DEVICE
                        : status == EMU_ERROR_HOST || status == EMU_ERROR_OUT_OF_MEMORY ||
                              (name == "recvmsg" && status == EMU_ERROR_DEVICE_LOST);
  if (fits && error.status == status && error.cause[0] != '\0') return;
  fail(__FILE__, __LINE__, trace + "got " + api->status_name(status) + " '" + error.cause + "'");
}

class Failing {
 public:
  explicit Failing(int emud) : emud_(std::to_string(emud)), calls_(the_calls()) {
    live(kSteps.size(), 0); // what grows once has grown
    CHECK(eventually([&] { return mappings(emud_, "emu-") == 0; }));
    settled([&] { return descriptors(emud_); }); // they go after the mappings
    before_ = footprint();
  }

  /* One life in which call `number` of step `failing` fails. False: the step makes fewer. */
  bool live(size_t failing, uint64_t number) {
    Life life;
    bool failed = false;
    for (size_t i = 0; i < kSteps.size(); ++i) {
      const Step& step = kSteps[i];
      if (i == index_of("queue_destroy")) check_device(life);
      if (i != failing) {
        OK(step.run(life));
        continue;
      }
      const emu_status status = call_failing(calls_, number, [&] { return step.run(life); });
      failed = calls_.count >= number;
      trace_ = std::string(step.name) + ", call " + std::to_string(number) + ", " + calls_.failed + ", fails: ";
      if (status == EMU_OK) continue;
      judge(calls_, status, trace_);
      if (status == EMU_ERROR_DEVICE_LOST) {
        leave(life);
        break;
      }
      expect_status(step.run(life), EMU_OK, (trace_ + "asked again").c_str(), __FILE__, __LINE__);
    }
    return failed;
  }

  void nothing_is_left() {
    if (eventually([&] { return footprint() == before_; }, 5)) return;
    fail(__FILE__, __LINE__, trace_ + "expected as before " + before_.text() + ", got " + footprint().text());
  }

 private:
  Footprint footprint() const {
    return {calls_.live, descriptors("self"), mappings("self", "emu-"), descriptors(emud_), mappings(emud_, "emu-")};
  }

  /* Of one life, and not a second of anything. */
  void check_device(const Life& life) const {
    CHECK(*static_cast<uint32_t*>(life.pinned) == 1);
    emu_telemetry telemetry{};
    telemetry.size = sizeof telemetry;
    OK(api->device_telemetry(life.device, &telemetry));
    const int64_t pinned = mappings(emud_, "emu-pinned");
    if (telemetry.contexts == 1 && telemetry.queues == 2 && telemetry.memory_used_bytes == 65536 && pinned == 1) return;
    fail(__FILE__, __LINE__,
         trace_ + "expected 1 context, 2 queues, 65536 bytes and 1 pinned buffer, got " +
             std::to_string(telemetry.contexts) + ", " + std::to_string(telemetry.queues) + ", " +
             std::to_string(telemetry.memory_used_bytes) + " and " + std::to_string(pinned));
  }

  /* All that is left to do when the connection is gone. */
  void leave(const Life& life) const {
    if (life.context != nullptr) {
      const emu_status status = api->context_destroy(life.context);
      CHECK(status == EMU_ERROR_DEVICE_LOST || status == EMU_ERROR_STALE_HANDLE);
      if (life.pinned != nullptr) api->host_free(life.context, life.pinned); // plain memory by now, or freed before
    }
    api->device_close(life.device);
  }

  const std::string emud_;
  FailingCalls& calls_;
  Footprint before_{};
  std::string trace_;
};

/* Of this case: what was started here has its folder in its environment. */
int emuds() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path() / "exe", gone).filename() != "emud" || gone) continue;
    std::ifstream file(entry.path() / "environ");
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    count += all.find(folder()) != std::string::npos ? 1 : 0;
  }
  return count;
}

} // namespace

CASE(client_call_failures) {
  const Served device({"--threads", "2"});
  Failing client(device.pid());
  uint64_t all = 0;
  for (size_t step = 0; step < kSteps.size(); ++step) {
    uint64_t number = 1;
    while (client.live(step, number)) {
      client.nothing_is_left();
      number += 1;
    }
    client.live(kSteps.size(), 0); // what is kept until the next time is given up
    client.nothing_is_left();
    std::printf("%s: %llu calls failed, one at a time\n", kSteps[step].name, (unsigned long long)(number - 1));
    all += number - 1;
  }
  CHECK(all > 50); // they are counted
}

/* A private emud is started, or it is told why not; none stays behind. */
CASE(private_open_call_failures) {
  FailingCalls& calls = the_calls();
  const auto open_and_close = [&](uint64_t number) {
    emu_device* device = nullptr;
    const emu_status status = call_failing(calls, number, [&] { return api->device_open(0, &device); });
    const std::string trace = "call " + std::to_string(number) + ", " + calls.failed + ", fails: ";
    if (status != EMU_OK) {
      judge(calls, status, trace);
      CHECK(eventually([] { return emuds() == 0; }));
      OK(api->device_open(0, &device));
    }
    CHECK(emuds() == 1);
    api->device_close(device);
    CHECK(eventually([] { return emuds() == 0; }));
    return calls.count >= number;
  };
  open_and_close(0);
  const int64_t before = descriptors("self");
  uint64_t number = 0;
  while (open_and_close(++number)) CHECK(descriptors("self") == before);
  CHECK(number > 10);
  std::printf("%llu calls failed, one at a time\n", (unsigned long long)(number - 1));
}
