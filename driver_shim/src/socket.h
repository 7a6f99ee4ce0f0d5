/* Messages with file descriptors over a SOCK_SEQPACKET Unix socket. */
#ifndef EMU_SOCKET_H
#define EMU_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <vector>

#include "descriptor.h"

namespace emu {

constexpr size_t kMaxDescriptors = 2;

/* Sends one message whole. False with errno on failure; never raises SIGPIPE. */
bool send_message(int socket, const void* data, size_t bytes, const int* fds = nullptr, size_t count = 0);

/* Receives one message. Bytes received; 0 at end of file; -1 with errno. A message
 * that does not fit, or that carries more than kMaxDescriptors, is EMSGSIZE. */
ssize_t receive_message(int socket, void* data, size_t capacity, std::vector<Descriptor>& fds);

/* False when the path is too long for a Unix socket (107 bytes). */
bool socket_address(const std::string& path, sockaddr_un& out);

} // namespace emu

#endif
