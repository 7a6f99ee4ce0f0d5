/* Messages with file descriptors over a SOCK_SEQPACKET Unix socket. */
#ifndef EMU_SOCKET_H
#define EMU_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <string>

#include "descriptor.h"

namespace emu {

constexpr size_t kMaxDescriptors = 2;

/* Those of one message. Receiving needs no memory, which may not be there: what came would be lost half-way. */
class Descriptors {
 public:
  size_t size() const { return count_; }
  Descriptor& operator[](size_t index) { return all_[index]; }
  const Descriptor& operator[](size_t index) const { return all_[index]; }
  void add(Descriptor one) { all_[count_++] = std::move(one); }
  void clear() {
    for (; count_ > 0; --count_) all_[count_ - 1].reset();
  }

 private:
  std::array<Descriptor, kMaxDescriptors> all_;
  size_t count_ = 0;
};

/* Sends one message whole. False with errno on failure; never raises SIGPIPE. */
bool send_message(int socket, const void* data, size_t bytes, const int* fds = nullptr, size_t count = 0);

/* Receives one message. Bytes received; 0 at end of file; -1 with errno. A message
 * that does not fit, or that carries more than kMaxDescriptors, is EMSGSIZE; one whose descriptors this process has no
 * room for is EMFILE. Both are taken from the socket. */
ssize_t receive_message(int socket, void* data, size_t capacity, Descriptors& fds);

/* False when the path is too long for a Unix socket (107 bytes). */
bool socket_address(const std::string& path, sockaddr_un& out);

} // namespace emu

#endif
