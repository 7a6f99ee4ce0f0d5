/* The control channel to one device (protocol.h): the handshake, and requests with replies. */
#ifndef EMU_CLIENT_CONNECTION_H
#define EMU_CLIENT_CONNECTION_H

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "descriptor.h"
#include "error.h"
#include "protocol.h"
#include "socket.h"

namespace emu::client {

struct Response {
  Reply reply;
  std::vector<std::byte> payload;
  Descriptors fds;
};

class Connection {
 public:
  /* Shakes hands; throws EMU_ERROR_VERSION naming both numbers when they do not meet. `what`
   * is the device for messages. */
  Connection(Descriptor socket, std::string what);
  ~Connection();
  Connection(const Connection&) = delete;

  /* Throws what emud refuses with, EMU_ERROR_DEVICE_LOST when it is gone, and EMU_ERROR_HOST when it was not asked. */
  Response request(const Request& request, int fd = -1);
  /* The payload is one T. */
  template <typename T>
  T fetch(const Request& message) {
    const Response response = request(message);
    T value{};
    if (response.payload.size() != sizeof value) throw damaged();
    __builtin_memcpy(static_cast<void*>(&value), response.payload.data(), sizeof value);
    return value;
  }

  bool is_lost();         // looks at the socket; true for ever once it was
  void mark_lost() { lost_ = true; }
  void set_emud(int pid) { emud_ = pid; }
  int emud() const { return emud_; }

 private:
  void shake_hands(const std::string& what);
  Error damaged() const;

  const Descriptor socket_;
  std::mutex mutex_; // one request at a time
  std::vector<std::byte> message_ = std::vector<std::byte>(kMaxMessage); // there before anything is asked for
  std::atomic<bool> lost_{false};
  std::atomic<int> emud_{0};
};

} // namespace emu::client

#endif
