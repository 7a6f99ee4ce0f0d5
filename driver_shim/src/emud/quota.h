/* What one client holds of a kind, and how much it may hold: [client] of machine.toml.
 *
 * Taken and given back by the thread of the client's session alone. */
#ifndef EMU_QUOTA_H
#define EMU_QUOTA_H

#include <cstdint>
#include <utility>

#include "emu_constants.h"
#include "refusal.h"

namespace emu {

class Quota {
 public:
  Quota(const char* noun, uint64_t most) : noun_(noun), most_(most) {}
  Quota(const Quota&) = delete;

  /* An amount that goes back when this ends. */
  class Share {
   public:
    Share() = default;
    Share(Quota& quota, uint64_t amount) : quota_(&quota), amount_(amount) { quota.take(amount); } // throws Refusal
    Share(Share&& other) noexcept : quota_(std::exchange(other.quota_, nullptr)), amount_(other.amount_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Share() {
      if (quota_ != nullptr) quota_->held_ -= amount_;
    }

   private:
    Quota* quota_ = nullptr;
    uint64_t amount_ = 0;
  };

 private:
  void take(uint64_t amount) {
    if (amount > most_ - held_) {
      throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                    format("%s of one client: expected at most %llu, got %llu with %llu more", noun_, ull(most_),
                           ull(held_), ull(amount)),
                    "give some back first");
    }
    held_ += amount;
  }
  using ull = unsigned long long;

  const char* const noun_;
  const uint64_t most_;
  uint64_t held_ = 0;
};

struct Quotas {
  Quota contexts{"contexts", constants::kClientContexts};
  Quota mappings{"mappings of device memory and pinned buffers", constants::kClientMappings};
  Quota registered_bytes{"bytes of pinned buffers", constants::kClientRegisteredBytes};
  Quota programs{"programs", constants::kClientPrograms};
  Quota program_bytes{"bytes of programs", constants::kClientProgramBytes};
  Quota queues{"queues", constants::kClientQueues};
};

} // namespace emu

#endif
