#include "server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "log.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace emu {
namespace {

constexpr int kLookAgainMs = 500;
constexpr useconds_t kDoorUs = 10'000;

Descriptor open_spare() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

int needed(int fd, const char* call) {
  if (fd >= 0) return fd;
  throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("emud cannot start: %s: %s", call, std::strerror(errno)));
}

pid_t peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

} // namespace

Server::Server(const Options& options, Descriptor signals, std::vector<Node> nodes,
               std::vector<std::unique_ptr<Firmware>> firmware)
    : options_(options), signals_(std::move(signals)), epoll_(needed(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      session_ended_(needed(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")), spare_(open_spare()),
      nodes_(std::move(nodes)), board_(options.devices) {
  for (uint32_t index = 0; index < options_.devices; ++index) {
    devices_.push_back(std::make_unique<Device>(options_, index, std::move(firmware[index]), board_));
    board_.devices.push_back(devices_.back().get());
  }
  watch(signals_.get(), EPOLLIN);
  watch(session_ended_.get(), EPOLLIN);
  for (const Node& node : nodes_) watch(node.fd(), EPOLLIN);
}

void Server::watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("epoll: %s", std::strerror(errno)));
  }
}

void Server::run() {
  pid_t client = 0;
  if (options_.is_private()) {
    // A forked child of the client may hold the socket open for ever: watch the process too.
    client = peer_of(options_.private_fd);
    client_process_ = Descriptor(int(syscall(SYS_pidfd_open, client, 0)));
    if (client_process_) watch(client_process_.get(), EPOLLIN);
    admit(*devices_[0], Descriptor(options_.private_fd));
  }
  const int timeout = options_.is_private() && !client_process_ ? kLookAgainMs : -1;
  for (bool serving = true; serving;) {
    epoll_event events[8];
    const int count = epoll_wait(epoll_.get(), events, 8, timeout);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == signals_.get() || (client_process_ && fd == client_process_.get())) serving = false;
      if (fd == session_ended_.get()) reap();
      for (size_t node = 0; node < nodes_.size(); ++node) {
        if (fd != nodes_[node].fd()) continue;
        try {
          accept_client(node);
        } catch (const std::bad_alloc&) { // not even to tell the client
          log("a client was turned away: %s", kNoMemory);
        }
      }
      for (Session& session : sessions_) {
        if (fd == session.fd()) session.look();
      }
    }
    if (options_.is_private() && sessions_.empty()) serving = false;
    if (timeout > 0 && kill(client, 0) != 0 && errno == ESRCH) serving = false;
  }
  shut_down();
}

void Server::accept_client(size_t node) {
  Descriptor socket(accept4(nodes_[node].fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) turn_away_one(node);
    return;
  }
  reap(); // who comes again has left before
  admit(*devices_[node], std::move(socket));
}

/* Who is not accepted stays at the door, and would be found there again and again. */
void Server::turn_away_one(size_t node) {
  const std::string cause = std::string("the device process cannot take one more client: ") + std::strerror(errno);
  spare_.reset();
  {
    const Descriptor socket(accept4(nodes_[node].fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) turn_away(socket.get(), options_, cause);
    else usleep(kDoorUs); // the host as a whole is short
  }
  spare_ = open_spare();
}

void Server::admit(Device& device, Descriptor socket) {
  const auto ended = [this] {
    const uint64_t one = 1;
    (void)!write(session_ended_.get(), &one, sizeof one);
  };
  try {
    // Once: what is left to do then is the session's, whose thread may be waiting for what the client left running.
    watch(socket.get(), EPOLLRDHUP | EPOLLONESHOT);
    sessions_.emplace_back(device, std::move(socket), clients_.quotas_of(peer_of(socket.get())), options_, ended);
  } catch (const std::bad_alloc&) { // this one goes, the others stay
    if (socket) turn_away(socket.get(), options_, kNoMemory);
  } catch (const std::exception& error) {
    if (socket) turn_away(socket.get(), options_, error.what()); // else the session has
  }
}

void Server::reap() {
  uint64_t count;
  (void)!read(session_ended_.get(), &count, sizeof count);
  sessions_.remove_if([](const Session& session) { return session.has_ended(); });
}

void Server::shut_down() {
  log("emud ends, %zu clients are told", sessions_.size());
  nodes_.clear(); // removed first: nobody new comes
  for (const auto& device : devices_) device->lose();
  for (Session& session : sessions_) session.hang_up();
  // A thread that the host does not let go on, like one that writes to a folder that hangs, does not hold up the end.
  std::thread([] {
    sleep(2);
    syscall(SYS_exit_group, 0);
  }).detach();
  sessions_.clear();
  devices_.clear();
}

} // namespace emu
