#include "options.h"

#include <getopt.h>
#include <sched.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "emu/driver.h"
#include "stepping.h"

namespace emu {
namespace {

constexpr char kUsage[] =
    R"(emud: the emulated accelerator, as a process.

usage: emud --node DIR/emu0 [options]     serve device nodes
       emud --private FD [options]        serve the one client at the other end of the socket FD

  --node PATH      Unix socket that is the node of the first device; its name ends in a number
  --group NAME     group that the nodes (mode 0660) belong to
  --devices N      devices, each with a node of its own (default 1)
  --memory BYTES   memory of each device
  --threads N      host threads that programs run on (default: processors of this host)
  --tick-budget N  device ticks that one launch may take
  --launch-seconds N  seconds of the host that one launch may take; 0.2 is good too
  --handshake-seconds N  how long a client may take to say its first word
  --power-mode NAME  power mode to start in (default: nominal)
  --ambient CELSIUS  temperature of the air around the devices
  --stepping NAME  of the silicon (default: the first of machine.toml)
  --interface N    interface number to serve as, for tests of the handshake
  --state-dir DIR  folder where firmware outlives emud, made if need be (default: none; for --private:
                   $EMU_STATE_DIR)
  --foreground     stay in the foreground; otherwise return when the nodes are ready
  --log FILE       append a line for each event
  --version, --help
)";

[[noreturn]] void refuse(const std::string& message) {
  std::fprintf(stderr, "emud: %s\nTry 'emud --help'.\n", message.c_str());
  std::exit(2);
}

uint64_t number(const char* option, const char* text, uint64_t low, uint64_t high) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (!std::isdigit(static_cast<unsigned char>(text[0])) || *end != '\0' || errno != 0 || value < low ||
      value > high) {
    refuse(std::string(option) + ": expected a number from " + std::to_string(low) + " to " + std::to_string(high) +
           ", got '" + text + "'");
  }
  return value;
}

double celsius(const char* option, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= -60 && value <= 150)) {
    refuse(std::string(option) + ": expected a temperature from -60 to 150, got '" + text + "'");
  }
  return value;
}

uint64_t milliseconds(const char* option, const char* text) {
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (!std::isdigit(static_cast<unsigned char>(text[0])) || *end != '\0' || !(seconds >= 0.001 && seconds <= 1 << 20)) {
    refuse(std::string(option) + ": expected seconds from 0.001 to 1048576, got '" + text + "'");
  }
  return uint64_t(seconds * 1000);
}

uint32_t power_mode(const char* option, const std::string& name) {
  std::string names;
  uint32_t index = 0;
  for (const constants::PowerMode& mode : constants::kPowerModes) {
    if (name == mode.name) return index;
    names += (index++ == 0 ? "" : ", ") + std::string(mode.name);
  }
  refuse(std::string(option) + ": expected one of " + names + ", got '" + name + "'");
}

const constants::Stepping* stepping(const char* name) {
  if (const constants::Stepping* const found = find_stepping(name)) return found;
  std::string known;
  for (const constants::Stepping& one : constants::kSteppings) {
    known += std::string(known.empty() ? "" : ", ") + one.name;
  }
  refuse("--stepping: expected one of " + known + ", got '" + name + "'");
}

unsigned processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? unsigned(CPU_COUNT(&set)) : 1;
}

size_t number_at(const std::string& node) {
  size_t at = node.size();
  while (at > 0 && std::isdigit(static_cast<unsigned char>(node[at - 1]))) --at;
  return at;
}

} // namespace

std::string Options::node(uint32_t device) const {
  if (is_private()) return "";
  const size_t at = number_at(first_node);
  return first_node.substr(0, at) + std::to_string(std::strtoul(first_node.c_str() + at, nullptr, 10) + device);
}

std::string Options::state_of(uint32_t device) const {
  return state_dir.empty() ? "" : state_dir + "/" + std::to_string(device);
}

Options parse_options(int argc, char** argv) {
  Options options;
  options.memory_bytes = constants::kMemoryBytes;
  options.tick_budget = constants::kTickBudget;
  options.launch_milliseconds = constants::kLaunchSeconds * 1000;
  options.handshake_seconds = constants::kHandshakeSeconds;
  options.ambient_celsius = constants::kAmbientCelsius;
  options.threads = processors();
  options.interface_version = EMU_DRIVER_INTERFACE;
  static const option table[] = {
      {"node", required_argument, nullptr, 'n'},       {"private", required_argument, nullptr, 'p'},
      {"group", required_argument, nullptr, 'g'},      {"devices", required_argument, nullptr, 'd'},
      {"memory", required_argument, nullptr, 'm'},     {"threads", required_argument, nullptr, 't'},
      {"tick-budget", required_argument, nullptr, 'b'}, {"interface", required_argument, nullptr, 'i'},
      {"launch-seconds", required_argument, nullptr, 's'}, {"handshake-seconds", required_argument, nullptr, 'w'},
      {"power-mode", required_argument, nullptr, 'P'}, {"ambient", required_argument, nullptr, 'a'},
      {"foreground", no_argument, nullptr, 'f'},       {"log", required_argument, nullptr, 'l'},
      {"state-dir", required_argument, nullptr, 'S'},  {"stepping", required_argument, nullptr, 'e'},
      {"version", no_argument, nullptr, 'v'},          {"help", no_argument, nullptr, 'h'},
      {nullptr, 0, nullptr, 0}};
  opterr = 0;
  for (int given; (given = getopt_long(argc, argv, "", table, nullptr)) != -1;) {
    switch (given) {
      case 'n': options.first_node = optarg; break;
      case 'p': options.private_fd = int(number("--private", optarg, 0, 1 << 20)); break;
      case 'g': options.group = optarg; break;
      case 'd': options.devices = uint32_t(number("--devices", optarg, 1, 64)); break;
      case 'm': {
        const uint64_t bytes = number("--memory", optarg, constants::kPageBytes, uint64_t(1) << 40);
        options.memory_bytes = bytes / constants::kPageBytes * constants::kPageBytes;
        break;
      }
      case 't': options.threads = unsigned(number("--threads", optarg, 1, 1024)); break;
      case 'b': options.tick_budget = number("--tick-budget", optarg, 1, UINT64_MAX); break;
      case 's': options.launch_milliseconds = milliseconds("--launch-seconds", optarg); break;
      case 'w': options.handshake_seconds = number("--handshake-seconds", optarg, 1, 1 << 20); break;
      case 'i': options.interface_version = uint32_t(number("--interface", optarg, 0, UINT32_MAX)); break;
      case 'P': options.power_mode = power_mode("--power-mode", optarg); break;
      case 'a': options.ambient_celsius = celsius("--ambient", optarg); break;
      case 'f': options.foreground = true; break;
      case 'l': options.log = optarg; break;
      case 'e': options.stepping = stepping(optarg); break;
      case 'S':
        if (*optarg == '\0') refuse("--state-dir: expected a folder, got ''");
        options.state_dir = optarg;
        break;
      case 'v':
        std::printf("emud %s, driver interface %d.%d\n", EMU_VERSION, EMU_DRIVER_INTERFACE_MAJOR,
                    EMU_DRIVER_INTERFACE_MINOR);
        std::exit(0);
      case 'h': std::fputs(kUsage, stdout); std::exit(0);
      default: refuse(std::string("expected a known option and its value, got '") + argv[optind - 1] + "'");
    }
  }
  if (optind < argc) refuse(std::string("expected only options, got '") + argv[optind] + "'");
  if (options.is_private() == !options.first_node.empty()) refuse("expected either --node or --private");
  if (!options.is_private() && number_at(options.first_node) == options.first_node.size()) {
    refuse("--node: expected a path that ends in a number, like /dev/emu/emu0, got '" + options.first_node + "'");
  }
  if (!options.is_private()) {
    const char* const first = options.first_node.c_str() + number_at(options.first_node);
    number("--node: its number", first, 0, UINT64_MAX - (options.devices - 1));
  }
  if (options.is_private() && options.devices != 1) refuse("--devices: a private emud has one device");
  const char* const given = std::getenv("EMU_STATE_DIR");
  if (options.is_private() && options.state_dir.empty() && given != nullptr) {
    options.state_dir = given;
  }
  return options;
}

} // namespace emu
