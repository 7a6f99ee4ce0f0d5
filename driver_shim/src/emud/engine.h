/* An engine: the thread that takes commands from the rings of its kind and runs them.
 *
 * It shares device time between client processes (account.h). Within one, whatever its
 * contexts, it serves the queue of the lowest priority number, and equal queues in turn. A
 * queue that waits for another does not hold it up. After its last command it looks on for
 * a short while and then sleeps (ring.h says how it is woken). */
#ifndef EMU_ENGINE_H
#define EMU_ENGINE_H

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "account.h"
#include "descriptor.h"
#include "queue.h"

namespace emu {

class Device;

class Engine {
 public:
  Engine(Device& device, emu_queue_kind kind); // throws Refusal
  ~Engine();

  void attach(const std::shared_ptr<Queue>& queue);
  void detach(const std::shared_ptr<Queue>& queue) noexcept;
  void replace(const std::shared_ptr<Queue>& before, const std::shared_ptr<Queue>& after) noexcept; // with its doorbell
  void ring();            // look again, if asleep
  void ring_if_blocked(); // the same, if asleep over a queue that waits for another
  void stop();            // after the command that runs
  const Turns& turns() const { return turns_; }

 private:
  void loop();
  bool refresh();
  Queue* next();
  bool ready(Queue& queue);
  void serve(Queue& queue);
  void sleep();
  void lose_doorbells();
  bool hears(Queue& queue);
  void knock();

  Device& device_;
  const emu_queue_kind kind_;
  Descriptor epoll_;
  Descriptor bell_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Queue>> attached_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> asleep_blocked_{false};
  std::atomic<bool> stop_{false};

  // Of the engine's thread.
  std::vector<std::shared_ptr<Queue>> queues_;
  uint64_t seen_generation_ = 0;
  uint64_t served_ = 0;
  Turns turns_;
  bool blocked_ = false;

  std::thread thread_;
};

} // namespace emu

#endif
