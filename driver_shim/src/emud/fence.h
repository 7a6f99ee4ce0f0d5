/* A fence: a 64-bit counter that contexts of any process and device of one emud hold, signal and wait for.
 *
 * It never goes back. It breaks, for good, when a context that may signal it is lost or left behind by a client that
 * ended, when a queue that has a signal of it to give is lost, reset or destroyed, and when none is left that may: then
 * nobody waits any more for a value that it has not reached. */
#ifndef EMU_FENCE_H
#define EMU_FENCE_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "descriptor.h"
#include "fence_page.h"
#include "quota.h"
#include "token.h"

namespace emu {

class Device;

class Fence {
 public:
  /* One context's. */
  class Hold {
   public:
    Hold(std::shared_ptr<Fence> fence, Device& device, bool may_signal, Quota& quota); // throws Refusal
    ~Hold();
    Hold(const Hold&) = delete;

    const std::shared_ptr<Fence> fence;
    const bool may_signal;
    Descriptor take_fd() { return std::move(fd_); } // of the page, once

   private:
    friend Fence;
    FencePage& page() const { return *static_cast<FencePage*>(page_.get()); }
    void tell() const; // the page, the host's waiters and the engines

    Device& device_;
    const Quota::Share one_;
    Descriptor fd_;
    Mapping page_;
  };

  // Any thread.
  uint64_t value() const { return value_; }
  bool is_broken() const { return broken_; }
  bool is_over(uint64_t value) const { return value_ >= value || broken_; } // no wait for it is left
  std::string cause() const;
  uint64_t ticks(uint64_t value) const; // on the device clock, when it reached that; no earlier than it did
  void signal(uint64_t value, uint64_t ticks) noexcept;
  void break_for(std::string_view cause) noexcept;

  Token signal_token, wait_token; // set once, by Fences

 private:
  struct Signal {
    uint64_t value, ticks;
  };
  void break_locked(std::string_view cause) noexcept;

  mutable std::mutex mutex_;
  std::vector<Hold*> holds_;
  std::atomic<uint64_t> value_{0};
  std::atomic<bool> broken_{false};
  std::array<Signal, 64> signals_{}; // the last ones
  size_t signalled_ = 0;
  char cause_[sizeof(FencePage::cause)] = "";
};

/* All of an emud, by their tokens. */
class Fences {
 public:
  std::shared_ptr<Fence> make();
  std::shared_ptr<Fence> find(const Token& token, bool& may_signal) const; // throws Refusal

 private:
  Tokens<Fence> signal_, wait_;
};

} // namespace emu

#endif
