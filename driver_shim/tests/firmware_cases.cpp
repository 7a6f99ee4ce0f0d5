/* Cases about firmware: what is installed, refused, started and rolled back. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "firmware_images.h"
#include "inject.h"
#include "ring.h"

using namespace emu;
using namespace emu::test;

namespace {

std::vector<std::string> kept() { return {"--state-dir", folder() + "/state"}; }
std::string slot_file(int slot) { return folder() + "/state/0/slot" + std::to_string(slot) + ".img"; }

void damage(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char was = char(file.get());
  file.seekp(at);
  file.put(char(was ^ 1));
  CHECK(file.good());
}

/* The other slot got nothing that can be started, and what runs goes on. */
void expect_unchanged(emu_device* device) {
  const emu_firmware_info info = firmware_of(device);
  CHECK(info.active == 0 && info.pending == EMU_NO_SLOT && std::string(info.version) == "1.0.0");
  CHECK(info.slots[0].state == EMU_SLOT_VALID);
  CHECK(info.slots[1].state == EMU_SLOT_INVALID || info.slots[1].state == EMU_SLOT_REFUSED);
  CHECK(info.slots[1].cause[0] != '\0');
}

} // namespace

CASE(firmware_of_a_new_device) {
  const Served served;
  emu_device* device = open_device();
  const emu_firmware_info info = firmware_of(device);
  CHECK(info.active == 0 && info.pending == EMU_NO_SLOT && info.previous == EMU_NO_SLOT && info.is_persistent == 0);
  CHECK(info.slots[0].state == EMU_SLOT_VALID && info.slots[1].state == EMU_SLOT_EMPTY);
  CHECK(info.slots[0].rollback_index == 1 && info.minimum_rollback_index == 1);
  CHECK(std::string(info.slots[0].version) == "1.0.0" && running(device) == "1.0.0");
  CHECK(std::strlen(info.slots[0].digest) == 64);
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(device));
  SAYS(last_error().cause, "slot 1: expected firmware, got none");
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_rollback(device));
  SAYS(last_error().cause, "expected the firmware that ran before, got none");
}

CASE(firmware_upgrade) {
  {
    const Served served(kept());
    emu_device* device = open_device();
    OK(install(device, make_image("1.1.0", 2)));
    CHECK(firmware_of(device).slots[1].state == EMU_SLOT_VALID && firmware_of(device).pending == EMU_NO_SLOT);
    OK(api->firmware_activate(device));
    CHECK(firmware_of(device).pending == 1 && running(device) == "1.0.0"); // until it starts
    api->device_close(device);
  }
  const Served served(kept());
  emu_device* device = open_device();
  emu_firmware_info info = firmware_of(device);
  CHECK(info.active == 1 && info.pending == EMU_NO_SLOT && info.previous == 0 && info.is_persistent == 1);
  CHECK(running(device) == "1.1.0" && info.minimum_rollback_index == 2);
  CHECK(info.slots[0].state == EMU_SLOT_REFUSED && std::string(info.slots[0].version) == "1.0.0");
  REFUSED(EMU_ERROR_ROLLBACK, api->firmware_rollback(device));
  SAYS(last_error().cause, "expected rollback index 2 or more, got 1");
  REFUSED(EMU_ERROR_ROLLBACK, install(device, make_image("1.0.1", 1)));
  SAYS(last_error().cause, "firmware 1.0.1 is too old");
  REFUSED(EMU_ERROR_ROLLBACK, api->firmware_activate(device));
  CHECK(firmware_of(device).pending == EMU_NO_SLOT);
}

CASE(firmware_rollback) {
  const Served served;
  emu_device* device = open_device();
  OK(install(device, make_image("1.1.0", 1)));
  OK(api->firmware_activate(device));
  OK(api->firmware_rollback(device)); // before it happened
  OK(api->device_reset(device));
  CHECK(running(device) == "1.0.0");
  OK(api->firmware_activate(device));
  OK(api->device_reset(device));
  CHECK(running(device) == "1.1.0");
  OK(api->firmware_rollback(device));
  CHECK(running(device) == "1.1.0");
  OK(api->device_reset(device));
  CHECK(running(device) == "1.0.0" && firmware_of(device).active == 0 && firmware_of(device).previous == 1);
  // What is written over cannot be gone back to.
  OK(install(device, make_image("1.2.0", 1)));
  CHECK(firmware_of(device).previous == EMU_NO_SLOT);
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_rollback(device));
}

CASE(firmware_refusals) {
  const Served served;
  emu_device* device = open_device();
  const auto refused = [&](const Image& image, emu_status status, const std::vector<std::string>& says) {
    expect_status(install(device, image), status, says[0].c_str(), __FILE__, __LINE__);
    for (const std::string& part : says) SAYS(last_error().cause, part);
    expect_unchanged(device);
    expect_status(api->firmware_activate(device), status, says[0].c_str(), __FILE__, __LINE__);
    expect_unchanged(device);
  };
  const auto changed = [](const std::function<void(ImageHeader&)>& change) {
    return make_image("1.1.0", 1, 100'000, change);
  };
  const auto flipped = [](size_t at) {
    Image image = make_image("1.1.0", 1);
    image[at] ^= std::byte{1};
    return image;
  };
  const auto cut = [](size_t bytes) {
    Image image = make_image("1.1.0", 1);
    image.resize(bytes);
    return image;
  };
  constexpr emu_status bad = EMU_ERROR_BAD_FIRMWARE;
  refused(cut(100), bad, {"cut short: expected at least 160 bytes, got 100"});
  refused(cut(160), bad, {"cut short: expected 100160 bytes, got 160"});
  refused(cut(100'159), bad, {"cut short: expected 100160 bytes, got 100159"});
  refused(cut(100'161), bad, {"too long: expected 100160 bytes, got 100161"});
  refused(flipped(0), bad, {"expected it to begin with EMUFWv1, got bytes 444d554657763100"});
  refused(changed([](ImageHeader& header) { header.format = 2; }), bad, {"expected format 1, got 2"});
  for (const size_t field : {offsetof(ImageHeader, rollback_index), offsetof(ImageHeader, version),
                             offsetof(ImageHeader, minimum_interface), offsetof(ImageHeader, digest),
                             offsetof(ImageHeader, signature), offsetof(ImageHeader, signature) + 63}) {
    refused(flipped(field), bad, {"expected a signature by key", ", got ", "which is none"});
  }
  refused(flipped(sizeof(ImageHeader)), bad, {"expected a payload of digest", ", got "});
  refused(flipped(100'159), bad, {"expected a payload of digest"});
  refused(changed([](ImageHeader& header) { header.version[0] = '\0'; }), bad, {"expected a version"});
  refused(changed([](ImageHeader& header) { std::memset(header.version, '1', 32); }), bad, {"expected a version"});
  refused(changed([](ImageHeader& header) { header.version[1] = '\n'; }), bad, {"expected a version"});
  refused(changed([](ImageHeader& header) { header.reserved[7] = 1; }), bad, {"expected zeros"});
  const std::string ours =
      std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + "." + std::to_string(EMU_DRIVER_INTERFACE_MINOR);
  refused(changed([](ImageHeader& header) { header.minimum_interface = 1900; }), EMU_ERROR_VERSION,
          {"expected interface " + ours + " or an older minor, got 1.900"});
  refused(changed([](ImageHeader& header) { header.minimum_interface = 0; }), EMU_ERROR_VERSION, {"got 0.0"});
  refused(make_image("0.9.0", 0), EMU_ERROR_ROLLBACK, {"expected rollback index 1 or more, got 0"});
  // And then a good one.
  OK(install(device, make_image("1.1.0", 1)));
  OK(api->firmware_activate(device));
  OK(api->device_reset(device));
  CHECK(running(device) == "1.1.0");
}

CASE(firmware_comes_in_order) {
  const Served served;
  emu_device* device = open_device();
  const Image image = make_image("1.1.0", 1);
  const auto write = [&](uint64_t total, uint64_t offset, size_t bytes) {
    const size_t from = std::min<size_t>(offset, image.size() - bytes);
    return api->firmware_write(device, total, offset, image.data() + from, bytes);
  };
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, write(image.size(), 10, 10)); // nothing was begun
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, write(image.size(), 0, 0));
  REFUSED(EMU_ERROR_BAD_FIRMWARE, write((1 << 20) + 1, 0, 10));
  REFUSED(EMU_ERROR_BAD_FIRMWARE, write(0, 0, 10));
  CHECK(firmware_of(device).slots[1].state == EMU_SLOT_EMPTY);
  OK(write(image.size(), 0, 1000));
  CHECK(firmware_of(device).slots[1].state == EMU_SLOT_WRITING);
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, write(image.size(), 999, 10));
  SAYS(last_error().cause, "expected offset 1000 of 100160 and at most 99160 bytes, got offset 999 of 100160 and 10");
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, write(image.size(), UINT64_MAX, 10));
  REFUSED(EMU_ERROR_INVALID_ARGUMENT, write(1500, 1000, 1000));
  REFUSED(EMU_ERROR_BAD_FIRMWARE, api->firmware_activate(device));
  SAYS(last_error().cause, "got 1000 bytes of an image that is being written");
  OK(install(device, image)); // from the start again
  OK(api->firmware_activate(device));
  OK(write(image.size(), 0, 1000)); // which is given up with what it was for
  CHECK(firmware_of(device).pending == EMU_NO_SLOT);
  OK(api->device_reset(device));
  CHECK(running(device) == "1.0.0" && firmware_of(device).slots[1].state == EMU_SLOT_INVALID);
}

CASE(firmware_is_for_the_owner) {
  const Served served({"--group", "nogroup"});
  const Client other([] {
    emu_device* device = open_device();
    const Image image = make_image("1.1.0", 1);
    REFUSED(EMU_ERROR_PERMISSION, install(device, image));
    SAYS(last_error().cause, "expected uid 0, got 65534");
    REFUSED(EMU_ERROR_PERMISSION, api->firmware_activate(device));
    REFUSED(EMU_ERROR_PERMISSION, api->firmware_rollback(device));
    REFUSED(EMU_ERROR_PERMISSION, api->device_reset(device));
    CHECK(running(device) == "1.0.0" && firmware_of(device).slots[1].state == EMU_SLOT_EMPTY);
  }, 65534);
}

CASE(firmware_outlives_a_private_emud) {
  setenv("EMU_STATE_DIR", (folder() + "/state").c_str(), 1);
  for (const char* version : {"1.0.0", "1.1.0"}) {
    const Client client([&] {
      Setup setup;
      CHECK(running(setup.device) == version && firmware_of(setup.device).is_persistent == 1);
      if (std::string(version) == "1.1.0") return;
      OK(install(setup.device, make_image("1.1.0", 1)));
      OK(api->firmware_activate(setup.device));
    });
  }
}

/* Anybody may ask, as often as they like: that costs the device no more than any other question. */
CASE(firmware_is_judged_once) {
  const Served served;
  emu_device* device = open_device();
  OK(install(device, make_image("1.1.0", 1, 1'000'000)));
  const auto quickest = [](const auto& ask) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 10; ++round) {
      const uint64_t start = monotonic_ns();
      for (int i = 0; i < 5; ++i) ask();
      best = std::min(best, monotonic_ns() - start);
    }
    return best;
  };
  emu_device_info info{};
  info.size = sizeof info;
  const uint64_t usual = quickest([&] { OK(api->device_info(device, &info)); });
  const uint64_t judging = quickest([&] { CHECK(firmware_of(device).slots[1].state == EMU_SLOT_VALID); });
  if (judging > 10 * usual) {
    fail(__FILE__, __LINE__, std::to_string(judging) + " ns against " + std::to_string(usual) + " of device_info");
  }
}

CASE(firmware_has_one_owner) {
  const Served served(kept());
  const Ended second = run_emud({"--node", folder() + "/devices/emu1", "--state-dir", folder() + "/state"});
  CHECK(second.status == 1);
  SAYS(second.output.c_str(), folder() + "/state/0 is in use by another emud");
}

/* The folder has no room for the state, or may not be written: what would run anew does not, and all else goes on. */
CASE(firmware_that_cannot_be_kept) {
  {
    const Served served(kept());
    emu_device* device = open_device();
    OK(install(device, make_image("1.1.0", 2)));
    OK(api->firmware_activate(device));
    api->device_close(device);
  }
  const std::string blocks = folder() + "/state/0/state.new", log = folder() + "/said";
  const std::string says = "slot 1 was not started: state folder: " + blocks;
  const auto in_background = [&] {
    const Ended started = run_emud({"--node", node(), "--state-dir", folder() + "/state", "--log", log});
    CHECK(started.status == 0);
    return started.output;
  };
  const auto end = [](emu_device* device) {
    const int pid = info_of(device).emud_pid;
    api->device_close(device);
    end_emud(pid);
  };
  CHECK(mkdir(blocks.c_str(), 0700) == 0);
  SAYS(in_background().c_str(), says);
  std::ifstream lines(log);
  SAYS(std::string(std::istreambuf_iterator<char>(lines), {}).c_str(), says);
  emu_device* device = open_device();
  const auto runs_as_before = [&] {
    const emu_firmware_info info = firmware_of(device);
    CHECK(running(device) == "1.0.0" && info.active == 0 && info.pending == 1 && info.minimum_rollback_index == 1);
  };
  runs_as_before();
  emu_event events[8];
  size_t count = 0;
  uint64_t dropped = 0;
  OK(api->event_read(device, 0, events, 8, &count, &dropped));
  CHECK(count == 2 && events[0].kind == EMU_EVENT_FIRMWARE_REFUSED && events[0].status == EMU_ERROR_HOST);
  CHECK(events[1].kind == EMU_EVENT_BOOT);
  OK(api->device_reset(device));
  runs_as_before();
  REFUSED(EMU_ERROR_HOST, api->firmware_rollback(device));
  runs_as_before();
  { // a device that crashed comes back
    const Setup setup;
    inject(setup, fault_of(EMU_FAULT_FIRMWARE_CRASH));
    const uint64_t address = setup.alloc(65536), filled = fill(setup.queue, address, 1);
    REFUSED(EMU_ERROR_FIRMWARE_CRASH, api->queue_synchronize(setup.queue, filled, UINT64_MAX));
    OK(api->device_reset(device));
  }
  { const Setup again; }
  runs_as_before();
  CHECK(rmdir(blocks.c_str()) == 0);
  OK(api->device_reset(device));
  CHECK(running(device) == "1.1.0" && firmware_of(device).active == 1 && firmware_of(device).pending == EMU_NO_SLOT);
  CHECK(firmware_of(device).minimum_rollback_index == 2);
  end(device);
  // Where nothing is left but the built-in image, it runs, and the next start finds the same.
  damage(slot_file(1), 5000);
  CHECK(mkdir(blocks.c_str(), 0700) == 0);
  SAYS(in_background().c_str(), "which slot runs is not kept: state folder: " + blocks);
  device = open_device();
  CHECK(running(device) == "1.0.0" && firmware_of(device).active == EMU_NO_SLOT);
  CHECK(firmware_of(device).minimum_rollback_index == 2);
  end(device);
}

CASE(firmware_that_was_damaged) {
  {
    const Served served(kept());
    emu_device* device = open_device();
    OK(install(device, make_image("1.1.0", 1)));
    OK(api->firmware_activate(device));
    OK(api->device_reset(device));
    CHECK(running(device) == "1.1.0");
    api->device_close(device);
  }
  damage(slot_file(1), 5000);
  {
    const Served served(kept()); // what ran before it
    emu_device* device = open_device();
    CHECK(running(device) == "1.0.0" && firmware_of(device).active == 0);
    CHECK(firmware_of(device).slots[1].state == EMU_SLOT_INVALID);
    SAYS(firmware_of(device).slots[1].cause, "expected a payload of digest");
    api->device_close(device);
  }
  damage(slot_file(0), 170);
  {
    const Served served(kept()); // no slot is left
    emu_device* device = open_device();
    CHECK(running(device) == "1.0.0" && firmware_of(device).active == EMU_NO_SLOT);
    OK(install(device, make_image("1.2.0", 1)));
    OK(api->firmware_activate(device));
    OK(api->device_reset(device));
    CHECK(running(device) == "1.2.0");
    api->device_close(device);
  }
  std::ofstream(folder() + "/state/0/state") << "emu firmware state 1\nactive 7\n";
  const Ended refused = run_emud({"--node", node(), "--state-dir", folder() + "/state"});
  CHECK(refused.status == 1);
  SAYS(refused.output.c_str(), "state is damaged: expected the slots of format 1, got 'emu firmware state 1");
}

CASE(firmware_of_a_private_device_that_cannot_be_kept) {
  setenv("EMU_STATE_DIR", "/proc/nowhere", 1);
  emu_device* device = nullptr;
  REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(0, &device));
  SAYS(last_error().cause, "a private emud could not start: ");
  SAYS(last_error().cause, "/proc/nowhere");
  setenv("EMU_STATE_DIR", (folder() + "/state").c_str(), 1);
  const Setup setup;
}
