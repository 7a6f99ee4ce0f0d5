/* A folder of small files that outlive emud, and survive its end at any moment.
 *
 * One emud at a time has it. What returned is on the disk; what a kill or a power cut interrupts is, for `replace`, not
 * done at all, and for `start` and `append` left at some length up to the one asked for. */
#ifndef EMU_STATE_FOLDER_H
#define EMU_STATE_FOLDER_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "descriptor.h"

namespace emu {

class StateFolder {
 public:
  /* Made if it is not there, for the user alone. All calls throw Refusal; this one also when another emud has it, and
   * is not about to end. */
  explicit StateFolder(std::string path);

  /* None when it is not there; of a longer file the first `most` + 1 bytes. */
  std::optional<std::vector<std::byte>> read(const std::string& name, size_t most) const;
  void replace(const std::string& name, std::span<const std::byte> bytes) const;
  void start(const std::string& name) const; // it is there, and empty
  void append(const std::string& name, uint64_t offset, std::span<const std::byte> bytes) const;

 private:
  Descriptor open_file(const std::string& name, int flags) const;
  void put(const Descriptor& file, const std::string& name, uint64_t offset, std::span<const std::byte> bytes) const;
  [[noreturn]] void fail(const std::string& name, const char* call) const;

  const std::string path_;
  Descriptor folder_; // locked
};

} // namespace emu

#endif
