/* Handles given to callers: numbers that are looked up, never followed, and never used
 * again. So a handle that is gone gives an error, whatever the caller does. */
#ifndef EMU_CLIENT_HANDLES_H
#define EMU_CLIENT_HANDLES_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "error.h"

namespace emu::client {

inline uintptr_t next_handle() {
  static std::atomic<uintptr_t> next{0x1000};
  return next.fetch_add(16);
}

template <typename Opaque, typename Object>
class Handles {
 public:
  explicit Handles(const char* noun) : noun_(noun) {}

  /* For what `make` gives. It gets its place first: nothing that was made on the device is left without a handle. */
  template <typename Make>
  Opaque* add(const Make& make) {
    const uintptr_t id = next_handle();
    {
      const std::unique_lock lock(mutex_);
      objects_.emplace(id, nullptr);
    }
    try {
      std::shared_ptr<Object> object = make();
      const std::unique_lock lock(mutex_);
      objects_.find(id)->second = std::move(object);
    } catch (...) {
      const std::unique_lock lock(mutex_);
      objects_.erase(id);
      throw;
    }
    return reinterpret_cast<Opaque*>(id);
  }

  std::shared_ptr<Object> get(Opaque* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end() || !found->second) throw stale();
    return found->second;
  }

  /* `end` gets the object, which nobody who comes from here on finds. Where the host had too little to tell the device,
   * the handle is as before. */
  template <typename End>
  void remove(Opaque* handle, const End& end) {
    auto taken = extract(handle);
    try {
      end(taken.mapped());
    } catch (const Error& error) {
      if (error.error.status == EMU_ERROR_HOST) {
        const std::unique_lock lock(mutex_);
        objects_.insert(std::move(taken));
      }
      throw;
    }
  }

  template <typename Each>
  void for_each(const Each& each) const {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, object] : objects_) {
      if (object) each(*object);
    }
  }

  template <typename Predicate>
  void erase_if(const Predicate& predicate) {
    const std::unique_lock lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      it = it->second && predicate(*it->second) ? objects_.erase(it) : std::next(it);
    }
  }

 private:
  auto extract(Opaque* handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end() || !found->second) throw stale();
    return objects_.extract(found);
  }
  Error stale() const {
    return Error(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_COMMAND, std::string("no such ") + noun_ + " in this process",
                 "use only handles of this process that were not destroyed");
  }

  const char* const noun_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

} // namespace emu::client

#endif
