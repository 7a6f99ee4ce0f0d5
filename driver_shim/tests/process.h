/* Processes of the test cases: emud on a node, and clients beside this one. */
#ifndef EMU_TEST_PROCESS_H
#define EMU_TEST_PROCESS_H

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace emu::test {

const std::string& folder();      // of this case, gone after it
const std::string& emud_program();
std::string node();               // path of the first device node

/* Runs `emud` with options to its end; what it printed and its exit status. */
struct Ended {
  int status;
  std::string output;
};
Ended run_emud(const std::vector<std::string>& options);

/* One for the node, with a log; its process, which is the caller's to reap. */
int start_emud(const std::vector<std::string>& options);
bool has_logged(int emud); // that it serves

/* emud that serves the node until the end of the scope, where it has to end in order. */
class Served {
 public:
  explicit Served(const std::vector<std::string>& options = {});
  ~Served();
  int pid() const { return pid_; }
  int end(int signal); // its wait status

 private:
  int pid_;
};

/* A fork of this process, which must not have opened the device. */
class Client {
 public:
  explicit Client(const std::function<void()>& work, uid_t uid = 0);
  ~Client();
  int pid() const { return pid_; }
  std::string line(); // the next one that it prints
  int wait();         // its wait status

 private:
  int pid_;
  int output_;
};

bool is_running(int pid); // one that ended and waits to be reaped does not
int64_t descriptors(const std::string& process);                       // open ones; its id, or "self"
int64_t mappings(const std::string& process, const std::string& name); // of memory files whose names begin so
bool eventually(const std::function<bool()>& look, double seconds = 20);
/* Of what other processes still change: what `read` gives when it has given the same for a second. */
int64_t settled(const std::function<int64_t()>& read);
/* Whether what `work` gives, the host's time that something took, is less than `limit` once in five: what takes longer
 * by itself always does, and what the host had no turn for did once. */
using Duration = std::chrono::steady_clock::duration;
bool is_within(Duration limit, const std::function<Duration()>& work);
void note_emud(int pid);
void end_emud(int pid); // that serves in the background
/* Ends the case, which is counted as skipped; the process that `supervise` runs calls it. */
constexpr int kSkipped = 77;
[[noreturn]] void skip(const char* why);  // has to be gone when the case is over

/* Runs `work` as the case in a process of its own, and judges: its status, what emuds left
 * behind, what sanitizers reported. Exit status of the test. */
int supervise(const std::string& emud, const std::function<void()>& work);

} // namespace emu::test

#endif
