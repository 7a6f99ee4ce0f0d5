// Indices out of range. The device runs behind the host, so a bad index cannot raise at the call:
// the program leaves that access out, writes what it found into the record of its stream, and the
// host reads the records when it next waits. The context goes on.
//
// A record is device memory that lives from the stream's first such program to the first wait that
// finds the stream done. Launches of a stream follow one another, and one that finds another's entry
// leaves it alone: so all that write an entry at a time are blocks of one launch, which differ in the
// index only, and no entry mixes two launches.
#pragma once

#include "program.h"
#include "runtime.h"

namespace emu {

// A launch on the current stream whose program may write the record; at most one at a time in a thread.
class BoundsLaunch {
 public:
  explicit BoundsLaunch(int device);
  ~BoundsLaunch();
  BoundsLaunch(const BoundsLaunch&) = delete;
  BoundsLaunch& operator=(const BoundsLaunch&) = delete;

  uint64_t record() const { return record_; }  // its address, for the program
  uint64_t told() const { return told_; }      // what the program writes there
  // To be called after the launch. In a process where each call waits for its work (EMURT_BLOCKING=1)
  // this raises already.
  void launched() const;

 private:
  int device_;
  emurt_stream stream_;
  uint64_t record_ = 0;
  uint64_t told_ = 0;
};

// To be called where the host has waited for work of the device, whichever: raises IndexError with
// operator, index and bound where a program found one that was not told yet. Free of cost where no
// such program ran.
void check_bounds(int device);

// Bytes that were read from the device for it.
uint64_t bounds_bytes_read(int device) noexcept;

}  // namespace emu
