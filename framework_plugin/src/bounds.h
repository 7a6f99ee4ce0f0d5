// Indices out of range. The device runs behind the host, so a bad index cannot raise at the call:
// the program leaves that access out, writes what it found into a record in device memory, and the
// host reads the record when it next waits. The context goes on.
#pragma once

#include "runtime.h"

namespace emu {

// What a program writes, in this order, 8 bytes each. `operation` is the id of a Counter.
struct BoundsRecord {
  uint64_t operation;
  int64_t index;
  int64_t bound;
};

// Address of the device's record, for a program; `bounds_launched` is called once it is on the current
// stream. In a process where each call waits for its work (EMURT_BLOCKING=1) that raises already.
uint64_t bounds_record(int device);
void bounds_launched(int device);

// To be called when all work of the stream, or of the device, is done: raises IndexError with operator,
// index and bound where a program found one. Free of cost where no such program ran.
void check_bounds(int device, emurt_stream stream);
void check_bounds(int device);

}  // namespace emu
