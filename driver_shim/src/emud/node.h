/* A device node: a listening Unix socket, removed when its owner ends in order. */
#ifndef EMU_NODE_H
#define EMU_NODE_H

#include <sys/types.h>

#include <string>

#include "descriptor.h"

namespace emu {

class Node {
 public:
  /* Takes the place of a stale node (nobody listens). Throws Refusal when another emud
   * serves it, the folder is not there, or the group is unknown. */
  Node(std::string path, const std::string& group);
  ~Node();
  Node(Node&&) = default;

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

 private:
  Descriptor socket_;
  std::string path_;
  ino_t inode_ = 0;
};

} // namespace emu

#endif
