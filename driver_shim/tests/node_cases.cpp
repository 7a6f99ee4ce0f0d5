/* Cases about device nodes: who may open one, who serves it, who shares it. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "descriptor.h"
#include "harness.h"
#include "socket.h"

using namespace emu::test;

namespace {

constexpr uid_t kNobody = 65534;

/* A node as an emud that was killed leaves it. */
void leave_stale_node() {
  const emu::Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  sockaddr_un address;
  CHECK(emu::socket_address(node(), address));
  CHECK(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

bool node_is_there() { return access(node().c_str(), F_OK) == 0; }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/* Of the emud that serves the node. */
void end_in_background() {
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  const emu_device_info info = info_of(device);
  api->device_close(device);
  end_emud(info.emud_pid);
}

} // namespace

CASE(node_is_served_and_removed) {
  Served device;
  struct stat status;
  CHECK(stat(node().c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && (status.st_mode & 07777) == 0660);
  {
    Setup setup;
    const emu_device_info info = info_of(setup.device);
    CHECK(info.emud_pid == device.pid() && info.is_private == 0 && info.node == node());
    CHECK(info.interface_version == EMU_DRIVER_INTERFACE && info.memory_bytes > 0 && info.host_threads > 0);
    // In order, with a client that holds things: it is told, the node goes, the status is 0.
    CHECK(device.end(SIGTERM) == 0);
    CHECK(!node_is_there());
    uint64_t address = 0;
    REFUSED(EMU_ERROR_DEVICE_LOST, api->memory_alloc(setup.context, 1, &address));
    REFUSED(EMU_ERROR_DEVICE_LOST, api->context_destroy(setup.context));
    _exit(0);
  }
}

CASE(node_of_two_devices) {
  const Served device({"--devices", "2", "--memory", "1048576"});
  uint32_t count = 0;
  OK(api->device_count(&count));
  CHECK(count == 2);
  for (uint32_t index = 0; index < 2; ++index) {
    emu_device* opened = nullptr;
    OK(api->device_open(index, &opened));
    const emu_device_info info = info_of(opened);
    CHECK(info.index == index && info.memory_bytes == 1048576);
    api->device_close(opened);
  }
}

CASE(node_is_a_folder_or_a_file) {
  CHECK(mkdir(node().c_str(), 0755) == 0);
  for (const char* what : {"is a folder, so no emud made it", "is a file that is no socket"}) {
    emu_device* device = nullptr;
    REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(0, &device));
    SAYS(last_error().cause, node() + " " + what);
    SAYS(last_error().mend, "remove it");
    rmdir(node().c_str());
    const emu::Descriptor file(open(node().c_str(), O_CREAT | O_WRONLY, 0666));
    CHECK(file);
  }
}

CASE(node_is_stale) {
  leave_stale_node();
  uint32_t count = 0;
  OK(api->device_count(&count));
  CHECK(count == 1); // it opens nothing
  emu_device* device = nullptr;
  REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(0, &device));
  SAYS(last_error().cause, node());
  SAYS(last_error().cause, "stale");
  SAYS(last_error().mend, "emud --node " + node());
  const Served served; // replaces it
  Setup setup;
}

CASE(node_after_a_kill) {
  Served killed;
  CHECK(WIFSIGNALED(killed.end(SIGKILL)));
  CHECK(node_is_there());
  const Served next;
  Setup setup;
}

CASE(node_is_taken) {
  const Served device;
  const Ended second = run_emud({"--node", node()});
  CHECK(second.status == 1);
  SAYS(second.output.c_str(), "served by another emud");
  Setup setup; // and the first still serves
}

CASE(node_is_no_socket) {
  std::ofstream(node()) << "precious";
  const Ended refused = run_emud({"--node", node()});
  CHECK(refused.status == 1);
  SAYS(refused.output.c_str(), "not a device node");
  CHECK(access(node().c_str(), F_OK) == 0);
}

CASE(node_is_a_link_to_nothing) {
  CHECK(symlink((folder() + "/missing").c_str(), node().c_str()) == 0);
  uint32_t count = 1;
  OK(api->device_count(&count));
  CHECK(count == 0 && last_error().status == EMU_ERROR_NO_DEVICE);
  emu_device* device = nullptr;
  REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(0, &device));
  SAYS(last_error().cause, node() + " cannot be opened: it is a link: No such file");
  SAYS(last_error().mend, "remove it");
}

/* Named from where emud was started, it is removed from where emud is in the background. */
CASE(node_of_a_relative_path) {
  CHECK(chdir(folder().c_str()) == 0);
  CHECK(run_emud({"--node", "devices/emu0"}).status == 0);
  end_in_background();
  CHECK(!node_is_there());
}

CASE(node_of_who_closed_the_standard_streams) {
  Client starter([] {
    close(STDIN_FILENO);
    CHECK(run_emud({"--node", node()}).status == 0);
  });
  CHECK(starter.wait() == 0);
  end_in_background();
}

CASE(node_may_not_be_opened) {
  const Served device;
  // Root opens everything: then another user tries.
  if (geteuid() != 0) CHECK(chmod(node().c_str(), 0) == 0);
  Client client([] {
    uint32_t count = 1;
    OK(api->device_count(&count));
    CHECK(count == 0);
    CHECK(last_error().status == EMU_ERROR_PERMISSION);
    emu_device* opened = nullptr;
    REFUSED(EMU_ERROR_PERMISSION, api->device_open(0, &opened));
    const emu_error error = last_error();
    SAYS(error.cause, node());
    SAYS(error.cause, geteuid() == kNobody ? "0660" : "0000");
    SAYS(error.cause, "uid " + std::to_string(geteuid()));
    SAYS(error.cause, "groups " + std::to_string(getegid()));
    SAYS(error.mend, "group");
  }, geteuid() == 0 ? kNobody : 0);
  CHECK(client.wait() == 0);
}

CASE(node_of_another_version) {
  const Served device({"--interface", "2007"});
  emu_device* opened = nullptr;
  REFUSED(EMU_ERROR_VERSION, api->device_open(0, &opened));
  SAYS(last_error().cause, "2.7");
  SAYS(last_error().cause,
       std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + "." + std::to_string(EMU_DRIVER_INTERFACE_MINOR));
}

CASE(node_of_an_older_minor) { // which has none of what is new
  const Served device({"--interface", std::to_string(EMU_DRIVER_INTERFACE - 1)});
  emu_device* opened = nullptr;
  REFUSED(EMU_ERROR_VERSION, api->device_open(0, &opened));
  const std::string major = std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + ".";
  SAYS(last_error().cause, major + std::to_string(EMU_DRIVER_INTERFACE_MINOR - 1));
  SAYS(last_error().cause, major + std::to_string(EMU_DRIVER_INTERFACE_MINOR));
}

CASE(node_of_a_newer_minor) {
  const Served device({"--interface", std::to_string(EMU_DRIVER_INTERFACE + 3)});
  Setup setup;
}

CASE(no_device_says_why) {
  uint32_t count = 0;
  OK(api->device_count(&count));
  CHECK(count == 1); // a private one could be started
  setenv("EMU_PRIVATE", "0", 1);
  OK(api->device_count(&count));
  CHECK(count == 0);
  CHECK(last_error().status == EMU_ERROR_NO_DEVICE);
  SAYS(last_error().cause, "EMU_PRIVATE=0");
  emu_device* device = nullptr;
  REFUSED(EMU_ERROR_NO_DEVICE, api->device_open(0, &device));
}

CASE(node_is_shared) {
  const Served device;
  Client other([] {
    Setup setup;
    const uint64_t address = setup.alloc(64 << 20);
    auto* host = setup.pinned<uint32_t>(1024);
    for (uint32_t i = 0; i < 1024; ++i) host[i] = 0x5ec0e700 + i;
    setup.to_device(address, host, 4096);
    std::puts("ready");
    std::fflush(stdout);
    pause();
  });
  CHECK(other.line() == "ready");
  Setup setup;
  CHECK(telemetry(setup.device).contexts == 2);
  CHECK(telemetry(setup.device).memory_used_bytes == 64 << 20);
  // The other's bytes are nowhere in what this process gets: all the rest of the memory is zero.
  emu_memory_info info{};
  info.size = sizeof info;
  OK(api->memory_info(setup.context, &info));
  const uint64_t address = setup.alloc(1 << 20);
  auto* host = setup.pinned<uint32_t>(1 << 18);
  setup.from_device(host, address, 1 << 20);
  for (uint32_t i = 0; i < 1 << 18; ++i) CHECK(host[i] == 0);
  uint64_t none = 0;
  REFUSED(EMU_ERROR_OUT_OF_MEMORY, api->memory_alloc(setup.context, info.free_bytes, &none));
  SAYS(last_error().cause, "process " + std::to_string(other.pid()));
  // Killed, it gives everything back, and fresh memory is zero again.
  kill(other.pid(), SIGKILL);
  CHECK(WIFSIGNALED(other.wait()));
  CHECK(eventually([&] { return telemetry(setup.device).contexts == 1; }));
  CHECK(telemetry(setup.device).memory_used_bytes == 1 << 20);
  OK(api->memory_alloc(setup.context, info.free_bytes, &none));
  for (uint64_t at = 0; at < 65 << 20; at += 1 << 20) {
    setup.from_device(host, none + at, 1 << 20);
    for (uint32_t i = 0; i < 1 << 18; ++i) CHECK(host[i] == 0);
  }
}

CASE(emud_refuses_bad_options) {
  const auto refuses = [](const std::vector<std::string>& options, const char* part) {
    const Ended ended = run_emud(options);
    CHECK(ended.status == 2);
    SAYS(ended.output.c_str(), part);
  };
  refuses({}, "--node or --private");
  refuses({"--node", "/tmp/device"}, "ends in a number");
  refuses({"--node", node(), "--memory", "12x"}, "--memory: expected a number");
  refuses({"--node", node(), "--threads", "0"}, "--threads");
  refuses({"--node", node(), "--power-mode", "turbo"},
          "--power-mode: expected one of nominal, eco, boost, got 'turbo'");
  refuses({"--node", node(), "--ambient", "hot"}, "--ambient: expected a temperature");
  refuses({"--node", node(), "more"}, "more");
  refuses({"--frobnicate"}, "--frobnicate");
  refuses({"--node", folder() + "/devices/emu18446744073709551615", "--devices", "2"},
          "--node: its number: expected a number from 0 to 18446744073709551614");
  const Ended group = run_emud({"--node", node(), "--group", "no-such-group"});
  CHECK(group.status == 1);
  SAYS(group.output.c_str(), "no-such-group");
  CHECK(!node_is_there());
  const Ended nowhere = run_emud({"--node", folder() + "/missing/emu0"});
  CHECK(nowhere.status == 1);
  SAYS(nowhere.output.c_str(), "make the folder first");
  CHECK(run_emud({"--version"}).status == 0 && run_emud({"--help"}).status == 0);
}

/* Whoever starts emud in the background is told whether it serves, whatever it is short of, and wherever. */
CASE(emud_says_why_it_does_not_serve) {
  if (kAddressSanitizer) skip("it needs descriptors for its own checks");
  const std::string log = folder() + "/why";
  int refused = 0, served = 0;
  for (rlim_t most = 32; most >= 5; --most) {
    Client client([&] {
      for (int fd = STDERR_FILENO + 1; fd < 1024; ++fd) close(fd); // of this process: emud would have them too
      const rlimit few{most, most};
      CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
      const Ended started = run_emud({"--node", node(), "--log", log});
      std::printf("%d\n%s\n", started.status, started.output.c_str());
    });
    const std::string status = client.line(), output = client.line();
    CHECK(client.wait() == 0);
    CHECK(status == "0" || status == "1");
    if (status == "0") {
      ++served; // itself: there may be no descriptor for a client
      const std::string told = text_of(log), process = "as process ";
      end_emud(std::stoi(told.substr(told.rfind(process) + process.size())));
    } else {
      ++refused;
      SAYS(output.c_str(), "Too many open files");
    }
    CHECK(!node_is_there());
  }
  CHECK(served > 0 && refused > 3);
  SAYS(text_of(log).c_str(), "emud ends: ");
}
