// Slots in pinned memory that the device writes timestamps to.
#pragma once

#include <list>
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
  struct Slot {
    emu_timestamp* slot;
    Point point;  // the device writes the slot until here
  };
  using Slots = std::list<Slot>;  // they move between lists: giving one back needs no memory
  Slots::iterator lend();

  Context& context_;
  std::mutex mutex_;
  std::vector<emu_timestamp*> chunks_;
  Slots free_;
  Slots lent_;
  Slots returned_;
};

}  // namespace emurt
