#include "connection.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "fork.h"
#include "socket.h"

namespace emu::client {
namespace {

/* The host has too little of something, for now. */
bool is_shortage(int number) {
  return number == ENOMEM || number == ENOBUFS || number == EMFILE || number == ENFILE || number == ETOOMANYREFS;
}

} // namespace

Connection::Connection(Descriptor socket, std::string what) : socket_(std::move(socket)) {
  close_in_children(socket_.get());
  try {
    shake_hands(what);
  } catch (...) {
    keep_in_children(socket_.get());
    throw;
  }
}

Connection::~Connection() { keep_in_children(socket_.get()); }

void Connection::shake_hands(const std::string& what) {
  const Hello hello{kHelloMagic, EMU_DRIVER_INTERFACE, 0};
  Welcome welcome{};
  Descriptors fds;
  // Who is turned away gets an answer that did not wait for the question: sending may fail, and the first look at the
  // socket may only tell that the question was not read.
  if (!send_message(socket_.get(), &hello, sizeof hello) && is_shortage(errno)) throw host_error("sendmsg", errno);
  ssize_t got = receive_message(socket_.get(), &welcome, sizeof welcome, fds);
  if (got < 0 && errno == ECONNRESET) got = receive_message(socket_.get(), &welcome, sizeof welcome, fds);
  if (got < 0 && is_shortage(errno)) throw host_error("recvmsg", errno);
  if (got == 0 || (got < 0 && errno != EMSGSIZE)) {
    throw Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE, what + " ended the connection before it answered",
                "look at the log of emud, or run it with --foreground");
  }
  if (got != sizeof welcome || welcome.magic != kWelcomeMagic) {
    throw Error(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE, what + " does not speak this protocol",
                "let emud and this package come from the same release");
  }
  if (welcome.status != EMU_OK && welcome.status != EMU_ERROR_VERSION) {
    welcome.cause[sizeof welcome.cause - 1] = '\0';
    throw Error(emu_status(welcome.status), EMU_SCOPE_DEVICE, what + " does not serve this process: " + welcome.cause,
                "end other processes on the device, or raise the limits (ulimit) of emud");
  }
  // Judged here too: an emud that is older than the rule would serve anyone.
  if (welcome.status != EMU_OK || !interfaces_meet(EMU_DRIVER_INTERFACE, welcome.interface_version)) {
    throw Error(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE,
                format("driver interface %d.%d of this process and %u.%u of %s do not meet", EMU_DRIVER_INTERFACE_MAJOR,
                       EMU_DRIVER_INTERFACE_MINOR, welcome.interface_version / 1000, welcome.interface_version % 1000,
                       what.c_str()),
                format("install an emu-driver-shim of interface %u.x, or update the one that emud runs from",
                       welcome.interface_version / 1000));
  }
}

Response Connection::request(const Request& request, int fd) {
  Response response;
  const std::lock_guard lock(mutex_);
  if (lost_) throw device_lost_error(emud_);
  if (!send_message(socket_.get(), &request, sizeof request, &fd, fd >= 0 ? 1 : 0)) {
    if (is_shortage(errno)) throw host_error("sendmsg", errno); // nothing was sent
    lost_ = true;
    throw device_lost_error(emud_);
  }
  const ssize_t got = receive_message(socket_.get(), message_.data(), message_.size(), response.fds);
  if (got <= 0) {
    lost_ = true; // also when a reply cannot be read: what follows would not be ours
    if (got == 0 || !is_shortage(errno)) throw device_lost_error(emud_);
    throw Error(EMU_ERROR_DEVICE_LOST, EMU_SCOPE_DEVICE,
                format("the connection to emud is given up, a reply cannot be read: recvmsg: %s", std::strerror(errno)),
                "close the device and open it again");
  }
  if (size_t(got) < sizeof(Reply)) throw damaged();
  std::memcpy(&response.reply, message_.data(), sizeof(Reply));
  if (response.reply.status != EMU_OK) {
    response.reply.cause[sizeof response.reply.cause - 1] = '\0';
    response.reply.mend[sizeof response.reply.mend - 1] = '\0';
    throw Error(emu_status(response.reply.status), emu_scope(response.reply.scope), response.reply.cause,
                response.reply.mend);
  }
  response.payload.assign(message_.begin() + sizeof(Reply), message_.begin() + got);
  return response;
}

Error Connection::damaged() const {
  return Error(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE, "a reply of emud does not have the size that it should",
               "let emud and this package come from the same release");
}

bool Connection::is_lost() {
  if (lost_) return true;
  pollfd look{socket_.get(), POLLRDHUP, 0};
  if (poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) lost_ = true;
  return lost_;
}

} // namespace emu::client
