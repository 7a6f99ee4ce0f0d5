/* Owners of what the kernel hands out: a file descriptor, a mapping. */
#ifndef EMU_DESCRIPTOR_H
#define EMU_DESCRIPTOR_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace emu {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, MAP_FAILED)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      address_ = std::exchange(other.address_, MAP_FAILED);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  explicit operator bool() const { return address_ != MAP_FAILED; }
  void* get() const { return address_; }
  size_t bytes() const { return bytes_; }
  void reset() {
    if (address_ != MAP_FAILED) munmap(std::exchange(address_, MAP_FAILED), bytes_);
  }

 private:
  void* address_ = MAP_FAILED;
  size_t bytes_ = 0;
};

} // namespace emu

#endif
