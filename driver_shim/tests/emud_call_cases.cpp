/* The N-th call that emud makes of its host fails, for N = 1, 2, 3 and on, until a client's life goes by without:
 * messages, descriptors, mappings, waits. The client is told or never notices, others are served, and nothing is
 * left. */
#include <unistd.h>

#include <fstream>

#include "allocations.h"
#include "life.h"

using namespace emu::test;

namespace {

/* Of a life that ends at the first step that fails. */
emu_status live(Life& life, const char*& step) {
  for (const Step& next : kSteps) {
    step = next.name;
    if (const emu_status status = next.run(life); status != EMU_OK) return status;
  }
  return EMU_OK;
}

} // namespace

CASE(emud_call_failures) {
  const std::string path = folder() + "/allocations";
  std::ofstream(path) << std::string(sizeof(Allocations), '\0');
  setenv(kAllocationsFile, path.c_str(), 1);
  Counted& calls = map_allocations(path.c_str())->calls;
  const Served device({"--threads", "2"});
  const std::string emud = std::to_string(device.pid());
  const char* step = "";
  const auto clean = [&](const std::string& when) {
    Life life;
    expect_status(live(life, step), EMU_OK, (when + step).c_str(), __FILE__, __LINE__);
  };
  clean("first life: "); // what grows once has grown
  CHECK(eventually([&] { return mappings(emud, "emu-") == 0; }));
  const int64_t descriptors_before = settled([&] { return descriptors(emud); }); // they go after the mappings
  uint64_t number = 0, told = 0;
  for (bool failed = true; failed;) {
    calls.count = 0;
    calls.fail_at = ++number;
    Life life;
    const emu_status status = live(life, step);
    failed = calls.count >= number;
    const std::string trace = "call " + std::to_string(number) + " fails, in " + step + ": ";
    if (status != EMU_OK) {
      told += 1;
      const emu_error error = last_error();
      if (!failed || error.cause[0] == '\0' ||
          (status != EMU_ERROR_HOST && status != EMU_ERROR_OUT_OF_MEMORY && status != EMU_ERROR_DEVICE_LOST &&
           status != EMU_ERROR_NO_DEVICE)) {
        fail(__FILE__, __LINE__, trace + "got " + api->status_name(status) + " '" + error.cause + "'");
      }
      if (life.context != nullptr) api->context_destroy(life.context); // or it went with the connection
      if (life.device != nullptr) api->device_close(life.device);
    }
    calls.fail_at = 0;
    CHECK(is_running(device.pid()));
    clean(trace + "next life: ");
    if (!eventually([&] { return descriptors(emud) == descriptors_before && mappings(emud, "emu-") == 0; }, 5)) {
      fail(__FILE__, __LINE__,
           trace + "expected as before " + std::to_string(descriptors_before) + " descriptors and no mapping, got " +
               std::to_string(descriptors(emud)) + " and " + std::to_string(mappings(emud, "emu-")));
    }
  }
  CHECK(number > 50 && told > 10); // they are counted, and reach the client
  std::printf("%llu calls failed, one at a time; the client was told of %llu\n", (unsigned long long)(number - 1),
              (unsigned long long)told);
}
