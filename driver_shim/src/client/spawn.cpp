/* A private emud: started by the first open of a device where no node exists.
 *
 * emud puts itself in the background, so the process started here ends at once and leaves
 * nothing for this process to reap; the device itself ends when this process does. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "find.h"

extern char** environ;

namespace emu::client {
namespace {

constexpr int kSocketInChild = 3;

/* What the emud that ended said last. */
std::string last_line(const Descriptor& output) {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(output.get(), part, sizeof part)) > 0;) text.append(part, size_t(got));
  std::string_view all(text);
  while (all.ends_with('\n')) all.remove_suffix(1);
  return std::string(all.substr(all.find_last_of('\n') + 1));
}

void reap(pid_t child, const Descriptor& output) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(child, &status, 0);
  } while (got < 0 && errno == EINTR);
  // ECHILD: the program ignores SIGCHLD, or reaped it elsewhere. The handshake will tell.
  if (got == child && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
    std::string why = last_line(output);
    if (why.empty()) why = format("%s ended with wait status 0x%x", emud_path().c_str(), status);
    throw Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE, "a private emud could not start: " + why,
                "mend what it names, or start one on a node (emud --node) and set EMU_DEVICE_DIR");
  }
}

} // namespace

std::string emud_path() {
  Dl_info info;
  char resolved[PATH_MAX];
  if (dladdr(reinterpret_cast<const void*>(&emud_path), &info) == 0 || realpath(info.dli_fname, resolved) == nullptr) {
    return "";
  }
  std::string path(resolved);
  path = path.substr(0, path.find_last_of('/')) + "/../bin/emud";
  if (realpath(path.c_str(), resolved) == nullptr || access(resolved, X_OK) != 0) return "";
  return resolved;
}

Descriptor start_private() {
  const std::string path = emud_path();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) throw host_error("socketpair", errno);
  Descriptor ours(pair[0]);
  const Descriptor given(pair[1]);
  // Out of the way first: a descriptor copied onto itself would keep its close-on-exec flag.
  const Descriptor theirs(fcntl(given.get(), F_DUPFD_CLOEXEC, kSocketInChild + 1));
  if (!theirs) throw host_error("fcntl(F_DUPFD_CLOEXEC)", errno);

  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) != 0) throw host_error("pipe2", errno);
  const Descriptor output(pipes[0]), made(pipes[1]);
  const Descriptor said(fcntl(made.get(), F_DUPFD_CLOEXEC, kSocketInChild + 1));
  if (!said) throw host_error("fcntl(F_DUPFD_CLOEXEC)", errno);

  const std::string number = std::to_string(kSocketInChild);
  const char* argv[] = {"emud", "--private", number.c_str(), nullptr};
  pid_t child = 0;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  int error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, said.get(), STDERR_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, theirs.get(), kSocketInChild);
  if (error == 0) {
    error = posix_spawn(&child, path.c_str(), &actions, nullptr, const_cast<char* const*>(argv), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw host_error("a private emud could not start: posix_spawn " + path, error);
  reap(child, output);
  return ours;
}

} // namespace emu::client
