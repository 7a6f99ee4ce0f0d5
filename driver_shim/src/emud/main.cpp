/* emud: the process that is the device. See `emud --help`. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

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

/* So that nothing of emud's gets the number of a standard stream that whoever starts it has closed. */
void fill_standard_streams() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
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

Refusal failed(const char* call) {
  return Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("emud cannot start: %s: %s", call, std::strerror(errno)));
}

/* Whoever started emud goes on when the child serves, or has said why it does not. */
[[noreturn]] void end_as(pid_t child, const Descriptor& ready) {
  char word;
  ssize_t got;
  do {
    got = read(ready.get(), &word, sizeof word);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof word) _exit(0);
  int status = 0;
  if (waitpid(child, &status, 0) == child && WIFSIGNALED(status)) {
    std::fprintf(stderr, "emud: the device process was ended by signal %d before it served\n", WTERMSIG(status));
  }
  _exit(1);
}

/* Returns in the child, with the output of whoever started emud; the parent waits for its word, or its end. */
Descriptor go_to_background() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw failed("pipe");
  Descriptor ready(ends[0]), serves(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw failed("fork");
  if (child > 0) {
    serves.reset();
    end_as(child, ready);
  }
  setsid(); // an interrupt at the terminal is the client's, not the device's
  return serves;
}

void let_go(Descriptor serves) {
  const Descriptor nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere) throw failed("/dev/null");
  if (chdir("/") != 0) throw failed("/");
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere.get(), fd);
  (void)!write(serves.get(), "", 1);
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
  fill_standard_streams();
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
  Descriptor serves;
  if (!options.foreground) serves = go_to_background();
  Server server(options, block_signals(), std::move(nodes), std::move(firmware));
  log("emud %s serves %u devices as process %d", EMU_VERSION, options.devices, getpid());
  if (serves) let_go(std::move(serves));
  server.run();
  return 0;
}

} // namespace
} // namespace emu

int main(int argc, char** argv) {
  const emu::Options options = emu::parse_options(argc, argv);
  std::string why;
  try {
    return emu::run(options);
  } catch (const emu::Refusal& refusal) {
    why = refusal.cause + (refusal.mend.empty() ? "" : "; ") + refusal.mend;
  } catch (const std::bad_alloc&) {
    why = "no memory on the host";
  } catch (const std::exception& error) {
    why = error.what();
  }
  std::fprintf(stderr, "emud: %s\n", why.c_str());
  if (emu::log_file != stderr) emu::log("emud ends: %s", why.c_str());
  return 1;
}
