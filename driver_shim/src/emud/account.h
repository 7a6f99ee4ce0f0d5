/* What clients had of a device, so that its engines are shared fairly between processes.
 *
 * Start-time fair queueing on the device clock: a client's `ticks` count what its commands took of an engine. Whoever
 * has a command ready and the fewest is served next, and one that had nothing ready meanwhile starts where the one
 * served last did: it gets its share from then on, and no credit for the time before. When nobody has anything ready,
 * all start afresh. */
#ifndef EMU_ACCOUNT_H
#define EMU_ACCOUNT_H

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "emu_constants.h"

namespace emu {

/* Of one client, which is a process, however many connections and contexts it has. Element e is written by engine e. */
struct Account {
  std::atomic<uint64_t> ticks[2]{0, 0};
  uint64_t last_served[2] = {0, 0};
};

/* An engine's side: written by its thread. */
class Turns {
 public:
  explicit Turns(unsigned engine) : engine_(engine) {}

  uint64_t start(const Account& account) const { return std::max(account.ticks[engine_].load(), now_.load()); }
  /* A command that takes no device time counts as the smallest copy: emud's own time is shared too. */
  void serve(Account& account, uint64_t ticks) {
    now_ = start(account);
    const uint64_t end = now_ + std::max(ticks, constants::kCopyFixedTicks);
    account.ticks[engine_] = end;
    most_ = std::max(most_, end);
  }
  void idle() { now_ = most_; }
  bool owes(const Account& account) const { return account.ticks[engine_] > now_; } // any thread

 private:
  const unsigned engine_;
  std::atomic<uint64_t> now_{0}; // where the client served last started
  uint64_t most_ = 0;
};

/* By process. One that ended is known until it would start where the others do: to come again is no way to get more. */
class Accounts {
 public:
  template <typename Owes>
  std::shared_ptr<Account> of(pid_t process, const Owes& owes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(accounts_, [&](const auto& entry) { return entry.second.use_count() == 1 && !owes(*entry.second); });
    std::shared_ptr<Account>& account = accounts_[process];
    if (!account) account = std::make_shared<Account>();
    return account;
  }

 private:
  std::mutex mutex_;
  std::map<pid_t, std::shared_ptr<Account>> accounts_;
};

} // namespace emu

#endif
