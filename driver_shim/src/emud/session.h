/* One client's connection: the handshake, then its requests one after another, on a thread
 * of its own. When the client goes, for whatever reason, all that it held goes with it. */
#ifndef EMU_SESSION_H
#define EMU_SESSION_H

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "descriptor.h"
#include "device.h"
#include "options.h"
#include "protocol.h"
#include "socket.h"

namespace emu {

/* The answer to a client that is not served. */
void turn_away(int socket, const Options& options, std::string_view cause);
constexpr const char* kNoMemory = "no memory on the host for the request";

class Session {
 public:
  /* `ended` is called on the session's thread as the last thing it does. Where no thread or memory is to be had the
   * client is told, or `socket` is left as it is to tell it, and it throws; so does Quota. */
  Session(Device& device, Descriptor&& socket, std::shared_ptr<Quotas> quotas, const Options& options,
          std::function<void()> ended);
  ~Session(); // joins
  void hang_up(); // the client sees end of file
  int fd() const { return socket_.get(); }
  void look();    // stops the work of a client that has gone, whatever the session's thread waits for
  bool has_ended() const { return ended_; }

 private:
  struct Answer {
    Reply reply{};
    std::array<int, kMaxDescriptors> fds{}; // owned by someone else
    size_t fd_count = 0;
    std::shared_ptr<void> keep; // ... that is kept until the answer is sent
  };

  void serve();
  bool shake_hands();
  void wait_at_most(uint64_t seconds);
  void check(const Request& request, size_t fds) const;
  Answer answer(const Request& request);
  template <typename T>
  void set_payload(const T& value, size_t bytes = sizeof(T));
  bool is_owner() const; // the client is of the user that this process runs as
  void require_owner(const char* to) const; // throws Refusal
  Answer activity_read(const Request& request);
  Answer event_read(const Request& request);
  Answer fault_list(const Request& request);
  void fault_inject(const Request& request, const Descriptor& fd, Reply& reply);
  void firmware_write(const Request& request, const Descriptor& fd);
  uint64_t context_create(const Request& request); // its number
  Answer queue_create(const Request& request);
  Answer fence_of(Context& context, const std::optional<Token>& token); // of one that is made, where there is none
  Answer program_load(const Request& request, const Descriptor& fd);
  std::shared_ptr<Context> context(const Request& request) const;
  void forget(uint64_t context);

  Device& device_;
  const std::shared_ptr<Quotas> quotas_;
  const Quota::Share itself_;
  const Descriptor socket_;
  const uint32_t interface_version_;
  const uint64_t handshake_seconds_;
  uint32_t client_interface_ = 0;
  pid_t client_ = 0;
  uid_t user_ = uid_t(-1); // of the client, as the kernel knows it; nobody's until then
  mutable std::mutex contexts_mutex_;
  using Contexts = std::map<uint64_t, std::shared_ptr<Context>>;
  Contexts contexts_; // changed by the session's thread
  Descriptors fds_;                // of the request
  std::vector<std::byte> message_; // place for a Reply, then the payload; that it fails needs no memory
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

} // namespace emu

#endif
