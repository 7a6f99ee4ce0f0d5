/* emud as a whole: its devices, their nodes, its clients, and when it ends. */
#ifndef EMU_SERVER_H
#define EMU_SERVER_H

#include <list>
#include <memory>
#include <vector>

#include "device.h"
#include "node.h"
#include "options.h"
#include "session.h"

namespace emu {

class Server {
 public:
  /* `signals` is a signalfd of what ends emud in order; `nodes` has one for each device,
   * or none for a private emud; `firmware` has one for each device. */
  Server(const Options& options, Descriptor signals, std::vector<Node> nodes,
         std::vector<std::unique_ptr<Firmware>> firmware);

  /* Serves until told to stop, or until the client of a private emud is gone. */
  void run();

 private:
  void accept_client(size_t node);
  void turn_away_one(size_t node);
  void admit(Device& device, Descriptor socket);
  void reap();
  void watch(int fd, uint32_t events);
  void shut_down();

  const Options options_;
  const Descriptor signals_;
  const Descriptor epoll_;
  const Descriptor session_ended_;
  Descriptor spare_; // given up for a moment to tell a client that there are no more descriptors
  Descriptor client_process_; // pidfd of a private emud's client, where the kernel has them
  std::vector<Node> nodes_;
  Clients clients_;
  Board board_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::list<Session> sessions_; // last: their threads use the devices
};

} // namespace emu

#endif
