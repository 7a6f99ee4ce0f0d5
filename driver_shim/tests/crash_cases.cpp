/* emud is killed at the N-th change of its state folder, for N = 1, 2, 3 and on, until an upgrade goes by without: the
 * next emud runs the old firmware, or the new one if its activation was recorded, and the upgrade works then. */
#include <signal.h>
#include <sys/wait.h>

#include "firmware_images.h"

using namespace emu;
using namespace emu::test;

namespace {

/* Whatever of an upgrade still gets done; with its end, how far it got. */
enum class Step { none, written, activated, started };

Step upgrade() {
  emu_device* device = nullptr;
  if (api->device_open(0, &device) != EMU_OK) return Step::none;
  if (install(device, make_image("1.1.0", 2)) != EMU_OK) return Step::none;
  if (api->firmware_activate(device) != EMU_OK) return Step::written;
  return api->device_reset(device) == EMU_OK ? Step::started : Step::activated;
}

/* True if emud was still there in the end. */
bool upgrade_until(int number, const std::string& state, Step& step) {
  setenv("EMU_DIE_AT", std::to_string(number).c_str(), 1);
  const int emud = start_emud({"--state-dir", state});
  unsetenv("EMU_DIE_AT");
  CHECK(eventually([&] { return has_logged(emud) || !is_running(emud); }));
  Client client([] { std::printf("%d\n", int(upgrade())); });
  step = Step(std::atoi(client.line().c_str()));
  client.wait();
  kill(emud, SIGTERM);
  int status = 0;
  CHECK(waitpid(emud, &status, 0) == emud);
  const bool survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK(survived || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  CHECK(survived == (step == Step::started));
  return survived;
}

} // namespace

CASE(upgrade_is_interrupted) {
  setenv("EMU_PRIVATE", "0", 1); // an emud that was killed before there was a node has no stand-in
  int number = 0, seen[4] = {};
  for (bool survived = false; !survived;) {
    const std::string state = folder() + "/state" + std::to_string(++number);
    Step step = Step::none;
    survived = upgrade_until(number, state, step);
    ++seen[int(step)];
    const Served served({"--state-dir", state});
    const Client client([&] {
      const std::string place = "killed at change " + std::to_string(number) + ": ";
      emu_device* device = open_device();
      const emu_firmware_info info = firmware_of(device);
      const std::string version = running(device);
      const bool is_new = version == "1.1.0";
      if (!is_new && version != "1.0.0") fail(__FILE__, __LINE__, place + "runs " + version);
      if (step >= Step::activated && !is_new) fail(__FILE__, __LINE__, place + "an activation was lost");
      if (step == Step::none && is_new) fail(__FILE__, __LINE__, place + "runs what was not activated");
      CHECK(info.active == (is_new ? 1u : 0u) && info.pending == EMU_NO_SLOT);
      CHECK(info.minimum_rollback_index == (is_new ? 2u : 1u));
      const uint32_t other = info.slots[1].state;
      CHECK(is_new || step == Step::none || other == EMU_SLOT_VALID);
      CHECK(other == EMU_SLOT_VALID || other == EMU_SLOT_INVALID || other == EMU_SLOT_EMPTY);
      CHECK(upgrade() == Step::started && running(device) == "1.1.0");
    });
  }
  // Kills before, in and after the writing of the image, and at both changes of state that follow.
  CHECK(number > 15 && seen[0] > 8 && seen[1] > 1 && seen[2] > 1 && seen[3] == 1);
  std::printf("%d changes, a kill at each\n", number - 1);
}
