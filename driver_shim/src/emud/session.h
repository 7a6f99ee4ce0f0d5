/* One client's connection: the handshake, then its requests one after another, on a thread
 * of its own. When the client goes, for whatever reason, all that it held goes with it. */
#ifndef EMU_SESSION_H
#define EMU_SESSION_H

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "descriptor.h"
#include "device.h"
#include "options.h"
#include "protocol.h"

namespace emu {

/* The answer to a client that is not served. */
void turn_away(int socket, const Options& options, const std::string& cause);

class Session {
 public:
  /* `ended` is called on the session's thread as the last thing it does. Where no thread is to be had the client is
   * told, and it throws std::system_error. */
  Session(Device& device, Descriptor socket, const Options& options, std::function<void()> ended);
  ~Session(); // joins
  void hang_up(); // the client sees end of file
  int fd() const { return socket_.get(); }
  void look();    // stops the work of a client that has gone, whatever the session's thread waits for
  bool has_ended() const { return ended_; }

 private:
  struct Answer {
    Reply reply{};
    std::vector<std::byte> payload;
    std::vector<int> fds; // owned by someone else
    std::shared_ptr<void> keep; // ... that is kept until the answer is sent
  };

  void serve();
  bool shake_hands();
  void wait_at_most(uint64_t seconds);
  void check(const Request& request, size_t fds) const;
  Answer answer(const Request& request, std::vector<Descriptor>& fds);
  Answer activity_read(const Request& request);
  Answer queue_create(const Request& request);
  Answer program_load(const Request& request, const Descriptor& fd);
  std::shared_ptr<Context> context(const Request& request) const;
  void forget(uint64_t context);

  Device& device_;
  const Descriptor socket_;
  const uint32_t interface_version_;
  const uint64_t handshake_seconds_;
  pid_t client_ = 0;
  mutable std::mutex contexts_mutex_;
  const std::shared_ptr<Quotas> quotas_ = std::make_shared<Quotas>();
  std::map<uint64_t, std::shared_ptr<Context>> contexts_; // changed by the session's thread
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

} // namespace emu

#endif
