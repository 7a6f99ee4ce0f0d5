#include "process.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "harness.h"

namespace emu::test {
namespace {

std::string the_folder;
std::string the_emud;
int notes = -1; // pipe to the supervisor

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int wait_for(int pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

int start(const std::vector<std::string>& words, int output) {
  const int pid = fork();
  if (pid != 0) return pid;
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

/* Every sanitizer of this process's children writes to files: a private emud has no stderr. */
void report_to_files() {
  const std::string options = "log_path=" + the_folder + "/report:exitcode=99";
  for (const char* tool : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    setenv(tool, options.c_str(), 1);
  }
  // Else it waits a second at each exit, which a case that times an end would count.
  setenv("TSAN_OPTIONS", (options + ":atexit_sleep_ms=0").c_str(), 1);
}

/* True if there is one. */
bool print_reports() {
  bool any = false;
  for (const auto& entry : std::filesystem::directory_iterator(the_folder)) {
    if (entry.path().filename().string().rfind("report.", 0) != 0) continue;
    std::fprintf(stderr, "%s\n", slurp(entry.path().string()).c_str());
    any = true;
  }
  return any;
}

} // namespace

const std::string& folder() { return the_folder; }
const std::string& emud_program() { return the_emud; }
std::string node() { return the_folder + "/devices/emu0"; }

bool is_running(int pid) {
  const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  const size_t at = stat.rfind(')');
  return at != std::string::npos && stat[at + 2] != 'Z';
}

int64_t descriptors(const std::string& process) {
  const std::filesystem::directory_iterator all("/proc/" + process + "/fd");
  return std::distance(begin(all), end(all));
}

int64_t mappings(const std::string& process, const std::string& name) {
  std::ifstream file("/proc/" + process + "/maps");
  int64_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find("/memfd:" + name) != std::string::npos ? 1 : 0;
  return count;
}

bool eventually(const std::function<bool()>& look, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!look()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

int64_t settled(const std::function<int64_t()>& read) {
  int64_t value = read();
  for (int same = 0; same < 100; ++same) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const int64_t now = read();
    if (now != value) same = 0;
    value = now;
  }
  return value;
}

bool is_within(Duration limit, const std::function<Duration()>& work) {
  for (int i = 0; i < 5; ++i) {
    if (work() < limit) return true;
  }
  return false;
}

void note_emud(int pid) { (void)!write(notes, &pid, sizeof pid); }

void end_emud(int pid) {
  note_emud(pid);
  kill(pid, SIGTERM);
  CHECK(eventually([&] { return !is_running(pid); }));
}

void skip(const char* why) {
  std::printf("skipped: %s\n", why);
  std::exit(kSkipped);
}

Ended run_emud(const std::vector<std::string>& options) {
  const std::string path = the_folder + "/output";
  const int output = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  std::vector<std::string> words{the_emud};
  words.insert(words.end(), options.begin(), options.end());
  const int status = wait_for(start(words, output));
  close(output);
  CHECK(WIFEXITED(status));
  return {WEXITSTATUS(status), slurp(path)};
}

int start_emud(const std::vector<std::string>& options) {
  std::vector<std::string> words{the_emud, "--node", node(), "--foreground", "--log", the_folder + "/log"};
  words.insert(words.end(), options.begin(), options.end());
  const int pid = start(words, -1);
  note_emud(pid);
  return pid;
}

bool has_logged(int emud) {
  return slurp(the_folder + "/log").find("as process " + std::to_string(emud)) != std::string::npos;
}

Served::Served(const std::vector<std::string>& options) : pid_(start_emud(options)) {
  CHECK(eventually([&] {
    CHECK(waitpid(pid_, nullptr, WNOHANG) == 0);
    return has_logged(pid_);
  }));
}

Served::~Served() {
  if (pid_ > 0) CHECK(end(SIGTERM) == 0);
}

int Served::end(int signal) {
  kill(pid_, signal);
  return wait_for(std::exchange(pid_, -1));
}

Client::Client(const std::function<void()>& work, uid_t uid) {
  int pipes[2];
  CHECK(pipe2(pipes, O_CLOEXEC) == 0);
  output_ = pipes[0];
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a case that failed leaves nobody waiting for it
    dup2(pipes[1], STDOUT_FILENO);
    if (uid != 0) CHECK(setgroups(0, nullptr) == 0 && setgid(gid_t(uid)) == 0 && setuid(uid) == 0);
    work();
    std::exit(0);
  }
  close(pipes[1]);
}

Client::~Client() {
  if (pid_ > 0) CHECK(wait() == 0);
  close(output_);
}

std::string Client::line() {
  std::string text;
  for (char letter; read(output_, &letter, 1) == 1 && letter != '\n';) text += letter;
  return text;
}

int Client::wait() { return wait_for(std::exchange(pid_, -1)); }

int supervise(const std::string& emud, const std::function<void()>& work) {
  char path[] = "/tmp/emu-XXXXXX"; // short: a Unix socket's path has at most 107 bytes
  if (mkdtemp(path) == nullptr) return 2;
  the_folder = path;
  the_emud = emud;
  chmod(path, 0755);
  mkdir((the_folder + "/devices").c_str(), 0755);
  setenv("EMU_DEVICE_DIR", (the_folder + "/devices").c_str(), 1);
  unsetenv("EMU_PRIVATE");
  report_to_files();
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return 2;
  const int pid = fork();
  if (pid == 0) {
    notes = pipes[1];
    work();
    std::fflush(nullptr);
    std::exit(0);
  }
  close(pipes[1]);
  const int status = wait_for(pid);
  const bool is_skipped = WIFEXITED(status) && WEXITSTATUS(status) == kSkipped;
  const bool case_failed = status != 0 && !is_skipped;
  bool failed = case_failed;
  if (failed) std::fprintf(stderr, "the case ended with wait status 0x%x\n", status);
  for (int left; read(pipes[0], &left, sizeof left) == sizeof left;) {
    // A case that failed has ended nothing in order: what it started is ended here, at once.
    if (eventually([&] { return !is_running(left); }, case_failed ? 0 : 20)) continue;
    if (!case_failed) std::fprintf(stderr, "emud, process %d, was left behind\n", left);
    kill(left, SIGKILL);
    failed = true;
  }
  failed = print_reports() || failed;
  std::filesystem::remove_all(path);
  return failed ? 1 : is_skipped ? kSkipped : 0;
}

} // namespace emu::test
