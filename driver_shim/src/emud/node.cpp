#include "node.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "refusal.h"
#include "socket.h"

namespace emu {
namespace {

Refusal failed(const std::string& what, const std::string& mend = "") {
  return Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, what + ": " + std::strerror(errno), mend);
}

/* Only one emud at a time looks whether a node is stale and replaces it. */
Descriptor lock_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  Descriptor fd(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || flock(fd.get(), LOCK_EX) != 0) throw failed("folder of node " + path, "make the folder first");
  return fd;
}

Descriptor make_socket(const std::string& path) {
  Descriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) throw failed("node " + path + " cannot be made: socket");
  return made;
}

bool somebody_listens(const std::string& path, const sockaddr_un& address) {
  const Descriptor probe = make_socket(path);
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

gid_t group_id(const std::string& name) {
  const ::group* entry = getgrnam(name.c_str());
  if (entry == nullptr) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_DEVICE, "--group: no group '" + name + "' on this host");
  }
  return entry->gr_gid;
}

} // namespace

Node::Node(std::string path, const std::string& group)
    : socket_(make_socket(path)), path_(std::move(path)) {
  sockaddr_un address;
  if (!socket_address(path_, address)) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_DEVICE, "path of node " + path_ + " is longer than 107 bytes");
  }
  const Descriptor lock = lock_folder(path_);
  if (somebody_listens(path_, address)) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, "node " + path_ + " is served by another emud",
                  "end that one first, or use another --node");
  }
  struct stat status;
  if (lstat(path_.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, path_ + " is there and is not a device node");
    }
    unlink(path_.c_str());
  }
  const gid_t owner = group.empty() ? gid_t(-1) : group_id(group);
  const mode_t mask = umask(0177); // nobody else before owner and group are right
  const int bound = bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(mask);
  if (bound != 0) throw failed("node " + path_ + " cannot be made");
  if (lstat(path_.c_str(), &status) != 0 || chown(path_.c_str(), uid_t(-1), owner) != 0 ||
      chmod(path_.c_str(), 0660) != 0 || listen(socket_.get(), 64) != 0) {
    const Refusal refusal = failed("mode and group of node " + path_ + " cannot be set");
    unlink(path_.c_str());
    throw refusal;
  }
  inode_ = status.st_ino;
  path_ = std::filesystem::absolute(path_); // to remove it from wherever emud is then
}

Node::~Node() {
  struct stat status;
  if (socket_ && lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_) unlink(path_.c_str());
}

} // namespace emu
