/* What clients hold of a kind, and how much they may hold: [client] of machine.toml.
 *
 * A client is a process, however often it connects. It may hold `each`, and all of them `all`, of which the last eighth
 * is for those that hold little: no more than a sixteenth of `each`. */
#ifndef EMU_QUOTA_H
#define EMU_QUOTA_H

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "emu_constants.h"
#include "refusal.h"

namespace emu {

/* Of a kind, over all clients. */
struct Bound {
  Bound(const char* noun_, uint64_t each_, uint64_t all_) : noun(noun_), each(each_), all(all_) {}

  const char* const noun;
  const uint64_t each;
  const uint64_t all;
  std::mutex mutex; // of what is held, by each client too
  uint64_t held = 0;
};

/* Of a kind, by one client. */
class Quota {
 public:
  explicit Quota(Bound& bound) : bound_(bound) {}
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
      if (quota_ != nullptr) quota_->give_back(amount_);
    }

   private:
    Quota* quota_ = nullptr;
    uint64_t amount_ = 0;
  };

 private:
  void take(uint64_t amount) {
    const std::lock_guard lock(bound_.mutex);
    if (amount > bound_.each - held_) refuse("one process", bound_.each, held_, amount);
    const bool little = held_ + amount <= bound_.each / 16;
    const uint64_t most = little ? bound_.all : bound_.all - bound_.all / 8;
    if (bound_.held > most || amount > most - bound_.held) refuse("all processes", most, bound_.held, amount);
    held_ += amount;
    bound_.held += amount;
  }
  void give_back(uint64_t amount) noexcept {
    const std::lock_guard lock(bound_.mutex);
    held_ -= amount;
    bound_.held -= amount;
  }
  [[noreturn]] void refuse(const char* whose, uint64_t most, uint64_t held, uint64_t amount) const {
    using ull = unsigned long long;
    throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                  format("%s of %s: expected at most %llu, got %llu with %llu more", bound_.noun, whose, ull(most),
                         ull(held), ull(amount)),
                  "give some back first");
  }

  Bound& bound_;
  uint64_t held_ = 0;
};

struct Bounds {
  Bound connections{"connections", constants::kClientConnections, constants::kAllConnections};
  Bound contexts{"contexts", constants::kClientContexts, constants::kAllContexts};
  Bound mappings{"mappings of device memory and pinned buffers", constants::kClientMappings, constants::kAllMappings};
  Bound registered_bytes{"bytes of pinned buffers", constants::kClientRegisteredBytes, constants::kAllRegisteredBytes};
  Bound programs{"programs", constants::kClientPrograms, constants::kAllPrograms};
  Bound program_bytes{"bytes of programs", constants::kClientProgramBytes, constants::kAllProgramBytes};
  Bound queues{"queues", constants::kClientQueues, constants::kAllQueues};
  Bound fences{"fences", constants::kClientFences, constants::kAllFences};
};

struct Quotas {
  explicit Quotas(Bounds& bounds)
      : connections(bounds.connections), contexts(bounds.contexts), mappings(bounds.mappings),
        registered_bytes(bounds.registered_bytes), programs(bounds.programs), program_bytes(bounds.program_bytes),
        queues(bounds.queues), fences(bounds.fences) {}

  Quota connections, contexts, mappings, registered_bytes, programs, program_bytes, queues, fences;
};

/* The clients that hold something. Not locked. */
class Clients {
 public:
  /* Of a process as SO_PEERCRED names it; those of a PID namespace that is not seen from here are all 0, and one. */
  std::shared_ptr<Quotas> quotas_of(pid_t process) {
    std::erase_if(quotas_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Quotas>& known = quotas_[process];
    std::shared_ptr<Quotas> quotas = known.lock();
    if (!quotas) known = quotas = std::make_shared<Quotas>(bounds_);
    return quotas;
  }

 private:
  Bounds bounds_;
  std::map<pid_t, std::weak_ptr<Quotas>> quotas_;
};

} // namespace emu

#endif
