// Calls pass the gate side by side; a reset or shutdown has it alone, after the calls
// in progress have returned. New calls wait behind it, so that it is not starved.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace emurt {

class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(gate) {
      if (gate.closing_.load(std::memory_order_relaxed)) {
        std::lock_guard<std::mutex> wait(gate.turnstile_);
      }
      gate.mutex_.lock_shared();
    }
    ~Pass() { gate_.mutex_.unlock_shared(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate& gate_;
  };

  class Closed {
   public:
    explicit Closed(Gate& gate) : gate_(gate), turnstile_(gate.turnstile_) {
      gate.closing_.store(true, std::memory_order_relaxed);
      gate.mutex_.lock();
    }
    ~Closed() {
      gate_.closing_.store(false, std::memory_order_relaxed);
      gate_.mutex_.unlock();
    }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    Gate& gate_;
    std::lock_guard<std::mutex> turnstile_;
  };

 private:
  std::shared_mutex mutex_;
  std::mutex turnstile_;
  std::atomic<bool> closing_{false};
};

}  // namespace emurt
