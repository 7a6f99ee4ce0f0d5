#include "find.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "socket.h"

namespace emu::client {
namespace {

constexpr char kDefaultFolder[] = "/dev/emu";

std::string device_folder() {
  const char* given = std::getenv("EMU_DEVICE_DIR");
  return given != nullptr && *given != '\0' ? given : kDefaultFolder;
}

bool private_allowed() {
  const char* given = std::getenv("EMU_PRIVATE");
  return given == nullptr || std::strcmp(given, "0") != 0;
}

/* N of "emuN", or nothing. */
std::optional<unsigned long> node_number(const char* name) {
  if (std::strncmp(name, "emu", 3) != 0 || !std::isdigit(static_cast<unsigned char>(name[3]))) return std::nullopt;
  char* end = nullptr;
  const unsigned long number = std::strtoul(name + 3, &end, 10);
  if (*end != '\0') return std::nullopt;
  return number;
}

std::string user_name(uid_t uid) {
  const passwd* entry = getpwuid(uid);
  return format("%s (%u)", entry != nullptr ? entry->pw_name : "?", uid);
}

std::string group_name(gid_t gid) {
  const group* entry = getgrgid(gid);
  return format("%s (%u)", entry != nullptr ? entry->gr_name : "?", gid);
}

std::string own_groups() {
  std::vector<gid_t> groups(size_t(std::max(0, getgroups(0, nullptr))));
  groups.resize(size_t(std::max(0, getgroups(int(groups.size()), groups.data()))));
  groups.push_back(getegid());
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  std::string text;
  for (size_t i = 0; i < groups.size() && i < 16; ++i) text += format(i == 0 ? "%u" : ",%u", groups[i]);
  return groups.size() > 16 ? text + ",..." : text;
}

/* A node that is in the folder and not to be had for another reason than its permissions. */
Error unusable_error(const std::string& path, int number) {
  struct stat status;
  const bool link = lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  return Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE,
               format("device node %s cannot be opened: %s%s", path.c_str(), link ? "it is a link: " : "",
                      std::strerror(number)),
               link ? "let the link lead to a node, or remove it" : "start emud --node " + path);
}

/* What lies where a node should be and can be none; nothing for a socket, and for what cannot be looked at. */
std::optional<Error> no_node_error(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || S_ISSOCK(status.st_mode)) return {};
  const bool folder = S_ISDIR(status.st_mode);
  return Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE,
               "device node " + path + " is " + (folder ? "a folder" : "a file that is no socket") + ", so no emud made it",
               folder ? "remove it and start emud --node " + path +
                            "; a container that is given a node before emud runs gets an empty folder: start it again"
                      : "remove it and start emud --node " + path);
}

/* For EACCES and EPERM. */
Error permission_error(const std::string& path) {
  const std::string self = format("this process has uid %u and groups %s", geteuid(), own_groups().c_str());
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    if (errno != EACCES) return unusable_error(path, errno);
    return Error(EMU_ERROR_PERMISSION, EMU_SCOPE_DEVICE,
                 path + " may not be looked at: a folder above it is closed to this process; " + self,
                 "open the folder to this user");
  }
  const std::string group = group_name(status.st_gid);
  return Error(EMU_ERROR_PERMISSION, EMU_SCOPE_DEVICE,
               format("device node %s may not be opened: mode %04o, owner %s, group %s; %s", path.c_str(),
                      status.st_mode & 07777u, user_name(status.st_uid).c_str(), group.c_str(), self.c_str()),
               "add the user to group " + group + ", or start emud with --group of a group that the user is in");
}

} // namespace

Found find_devices() {
  Found found;
  const std::string folder = device_folder();
  std::vector<std::pair<unsigned long, std::string>> nodes;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (!listing && errno != ENOENT && errno != ENOTDIR) {
    // Not known to be without a node: what is wrong here is no reason to start a private device.
    found.why_none = errno == EACCES ? permission_error(folder) : host_error("opendir " + folder, errno);
    return found;
  }
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    if (const auto number = node_number(entry->d_name)) nodes.emplace_back(*number, folder + "/" + entry->d_name);
  }
  std::sort(nodes.begin(), nodes.end());
  for (const auto& [number, path] : nodes) {
    if (auto error = no_node_error(path)) {
      if (!found.why_none) found.why_none = std::move(error);
    } else if (faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0) {
      found.nodes.push_back(path);
    } else if (!found.why_none) {
      found.why_none = errno == EACCES ? permission_error(path) : unusable_error(path, errno);
    }
  }
  if (!nodes.empty()) {
    if (!found.nodes.empty()) found.why_none.reset();
    return found;
  }
  const std::string none = "no device node in " + folder;
  if (!private_allowed()) {
    found.why_none = Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE,
                           none + ", and EMU_PRIVATE=0 forbids to start a private device",
                           "start emud --node " + folder + "/emu0, or unset EMU_PRIVATE");
  } else if (emud_path().empty()) {
    found.why_none = Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE,
                           none + ", and there is no emud beside libemudrv to start a private device with",
                           "reinstall emu-driver-shim");
  } else {
    found.start_private = true;
  }
  return found;
}

Descriptor connect_node(const std::string& path) {
  sockaddr_un address;
  if (!socket_address(path, address)) {
    throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_DEVICE, "path of node " + path + " is longer than 107 bytes");
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw host_error("socket", errno);
  int result;
  do {
    result = connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return socket;
  switch (errno) {
    case EACCES:
    case EPERM: throw permission_error(path);
    case ECONNREFUSED:
      throw Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_DEVICE,
                  "device node " + path + " is stale: it is there, and no emud listens behind it",
                  "start emud --node " + path + ", which replaces it");
    default: throw unusable_error(path, errno);
  }
}

} // namespace emu::client
