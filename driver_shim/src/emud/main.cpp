/* emud: the process that is the device. See `emud --help`. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "log.h"
#include "server.h"

namespace emu {
namespace {

/* What a private emud inherits from its client besides the socket is the client's business:
 * a pipe that stays open here would keep its reader waiting. */
void close_others(int keep) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::vector<int> fds;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > STDERR_FILENO && fd != keep && fd != dirfd(folder)) fds.push_back(fd);
  }
  closedir(folder);
  for (const int fd : fds) close(fd);
}

void raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Descriptor block_signals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* Returns in the child; the parent ends, so that whoever started emud goes on. */
void go_to_background() {
  const pid_t child = fork();
  if (child < 0) throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("fork: %s", std::strerror(errno)));
  if (child > 0) _exit(0);
  setsid(); // an interrupt at the terminal is the client's, not the device's
  if (chdir("/") != 0) return;
  const Descriptor nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere.get(), fd);
}

void open_log(const Options& options) {
  if (!options.log.empty()) {
    log_file = std::fopen(options.log.c_str(), "ae");
    if (log_file == nullptr) {
      throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, "--log " + options.log + ": " + std::strerror(errno));
    }
  } else if (options.foreground) {
    log_file = stderr;
  }
}

int run(const Options& options) {
  if (options.is_private()) {
    close_others(options.private_fd);
    fcntl(options.private_fd, F_SETFD, FD_CLOEXEC);
  }
  raise_descriptor_limit();
  open_log(options);
  std::vector<std::unique_ptr<Firmware>> firmware; // first: what it cannot be is told to who starts emud
  for (uint32_t index = 0; index < options.devices; ++index) {
    firmware.push_back(std::make_unique<Firmware>(options.state_of(index)));
  }
  std::vector<Node> nodes;
  for (uint32_t index = 0; index < options.devices && !options.is_private(); ++index) {
    nodes.emplace_back(options.node(index), options.group);
  }
  // Before any thread starts. From here on clients may connect, and are served in a moment.
  if (!options.foreground) go_to_background();
  Server server(options, block_signals(), std::move(nodes), std::move(firmware));
  log("emud %s serves %u devices as process %d", EMU_VERSION, options.devices, getpid());
  server.run();
  return 0;
}

} // namespace
} // namespace emu

int main(int argc, char** argv) {
  const emu::Options options = emu::parse_options(argc, argv);
  try {
    return emu::run(options);
  } catch (const emu::Refusal& refusal) {
    std::fprintf(stderr, "emud: %s%s%s\n", refusal.cause.c_str(), refusal.mend.empty() ? "" : "; ",
                 refusal.mend.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emud: %s\n", error.what());
  }
  return 1;
}
