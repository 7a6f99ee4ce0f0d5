#include "state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "refusal.h"

namespace emu {
namespace {

// A private emud ends a moment after its client, whose next process may have started one already.
constexpr int kLockWaits = 200;
constexpr useconds_t kLockWaitUs = 10'000;

} // namespace

StateFolder::StateFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const std::filesystem::path above = std::filesystem::path(path_).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, error); // open tells of failure
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) fail("", "mkdir");
  folder_ = Descriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_) fail("", "open");
  for (int wait = 0; wait < kLockWaits; ++wait) {
    if (flock(folder_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) fail("", "flock");
    usleep(kLockWaitUs);
  }
  throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, "state folder " + path_ + " is in use by another emud",
                "end that one, or give this one a folder of its own");
}

void StateFolder::fail(const std::string& name, const char* call) const {
  const int number = errno;
  const std::string file = name.empty() ? path_ : path_ + "/" + name;
  throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, "state folder: " + file + ": " + call + ": " + std::strerror(number),
                "see that the folder is this user's and its disk has room");
}

Descriptor StateFolder::open_file(const std::string& name, int flags) const {
  Descriptor file(openat(folder_.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) fail(name, "open");
  return file;
}

std::optional<std::vector<std::byte>> StateFolder::read(const std::string& name, size_t most) const {
  std::vector<std::byte> bytes(most + 1);
  const Descriptor file(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) fail(name, "open");
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = pread(file.get(), bytes.data() + have, bytes.size() - have, off_t(have));
    if (got < 0) fail(name, "pread");
    if (got == 0) break;
    have += size_t(got);
  }
  bytes.resize(have);
  return bytes;
}

void StateFolder::put(const Descriptor& file, const std::string& name, uint64_t offset,
                      std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(file.get(), bytes.data(), bytes.size(), off_t(offset));
    if (done < 0) fail(name, "pwrite");
    bytes = bytes.subspan(size_t(done));
    offset += uint64_t(done);
  }
  if (fsync(file.get()) != 0) fail(name, "fsync");
}

void StateFolder::replace(const std::string& name, std::span<const std::byte> bytes) const {
  const std::string next = name + ".new";
  put(open_file(next, O_WRONLY | O_CREAT | O_TRUNC), next, 0, bytes);
  if (renameat(folder_.get(), next.c_str(), folder_.get(), name.c_str()) != 0) fail(next, "rename");
  if (fsync(folder_.get()) != 0) fail("", "fsync");
}

void StateFolder::start(const std::string& name) const {
  const Descriptor file = open_file(name, O_WRONLY | O_CREAT);
  if (ftruncate(file.get(), 0) != 0) fail(name, "ftruncate");
  if (fsync(file.get()) != 0) fail(name, "fsync");
  if (fsync(folder_.get()) != 0) fail("", "fsync");
}

void StateFolder::append(const std::string& name, uint64_t offset, std::span<const std::byte> bytes) const {
  put(open_file(name, O_WRONLY), name, offset, bytes);
}

} // namespace emu
