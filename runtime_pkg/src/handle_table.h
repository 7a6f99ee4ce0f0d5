// Opaque handles: numbers that are looked up and never used again, so that a wrong,
// destroyed or old one is an error and not a crash.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "failure.h"

namespace emurt {

// One count for all kinds: a handle of one kind is never a live one of another.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

template <typename Handle, typename Value>
class HandleTable {
 public:
  explicit HandleTable(const char* noun) : noun_(noun) {}

  Handle add(Value value) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    uint64_t id = next_handle();
    values_.emplace(id, std::move(value));
    return reinterpret_cast<Handle>(static_cast<uintptr_t>(id));
  }

  Value get(Handle handle) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = values_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == values_.end()) stale(handle);
    return found->second;
  }

  Value take(Handle handle) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    auto found = values_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == values_.end()) stale(handle);
    Value value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  template <typename Predicate>
  void remove_if(Predicate predicate) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    for (auto entry = values_.begin(); entry != values_.end();) {
      entry = predicate(entry->second) ? values_.erase(entry) : std::next(entry);
    }
  }

 private:
  [[noreturn]] void stale(Handle handle) const {
    fail(EMU_ERROR_STALE_HANDLE, -1,
         text("%p is not a live %s: it was destroyed, or made before a reset of its device",
              static_cast<void*>(handle), noun_),
         text("Create a new %s", noun_));
  }

  const char* noun_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, Value> values_;
};

}  // namespace emurt
