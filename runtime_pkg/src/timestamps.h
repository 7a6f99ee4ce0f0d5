// Slots in pinned memory that the device writes timestamps to.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "queue.h"

namespace emurt {

class Timestamps {
 public:
  explicit Timestamps(Context& context) : context_(context) {}
  ~Timestamps();

  // A slot and the command that fills it. The slot comes back when the last copy of the pointer goes.
  struct Taken {
    std::shared_ptr<const emu_timestamp> slot;
    Point point;
  };
  Taken take(Queue& queue);

 private:
  struct Returned {
    emu_timestamp* slot;
    Point point;  // the device writes the slot until here
  };
  emu_timestamp* free_slot();

  Context& context_;
  std::mutex mutex_;
  std::vector<emu_timestamp*> chunks_;
  std::vector<emu_timestamp*> free_;
  std::deque<Returned> returned_;
};

}  // namespace emurt
