/* Waiting for what emud says in shared memory: spinning for a moment, then asleep on a word of it. */
#ifndef EMU_CLIENT_WAIT_H
#define EMU_CLIENT_WAIT_H

#include <algorithm>

#include "connection.h"
#include "ring.h"

namespace emu::client {

constexpr uint64_t kSpinNs = 60'000;
constexpr uint64_t kLookAtSocketNs = 10'000'000; // how long a killed emud can go unnoticed by who waits

struct Watched {
  std::atomic<uint64_t>& word; // emud wakes on it
  std::atomic<uint32_t>& waiters;
  Connection& connection;
};

enum class Waited { done, ended, time_is_up, device_lost };

/* Until `done`, or no longer `running`, or the time is up. `nudge` is called now and then meanwhile. */
template <typename Done, typename Running, typename Nudge>
Waited wait_until(const Watched& watched, const Done& done, const Running& running, const Nudge& nudge,
                  uint64_t timeout_ns) {
  if (done()) return Waited::done;
  nudge();
  if (!running()) return Waited::ended;
  if (timeout_ns == 0) return Waited::time_is_up;
  const uint64_t start = monotonic_ns();
  const uint64_t deadline = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;
  for (Spin spin(std::min(kSpinNs, timeout_ns)); spin.again();) {
    if (done()) return Waited::done;
  }
  while (running()) {
    watched.waiters.fetch_add(1, std::memory_order_seq_cst);
    const uint64_t seen = watched.word.load(std::memory_order_seq_cst);
    const bool now_done = done();
    const uint64_t now = monotonic_ns();
    if (!now_done && now < deadline) wait_while(watched.word, seen, std::min(kLookAtSocketNs, deadline - now));
    watched.waiters.fetch_sub(1, std::memory_order_seq_cst);
    if (now_done || done()) return Waited::done;
    if (monotonic_ns() >= deadline) return Waited::time_is_up;
    nudge();
    if (watched.connection.is_lost()) return Waited::device_lost;
  }
  return done() ? Waited::done : Waited::ended;
}

} // namespace emu::client

#endif
