// The state of the process: the driver, the devices, the handles, and whether calls
// are still allowed. Never destroyed, so that a late call gets an error and not a crash.
//
// After fork, a child of a process that had opened a device is refused (its queues and
// memory are the parent's); the child of one that had not starts afresh.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "activity.h"
#include "context.h"
#include "driver_library.h"
#include "event.h"
#include "gate.h"
#include "handle_table.h"
#include "old_memory.h"
#include "old_pinned.h"

namespace emurt {

class Process {
 public:
  static constexpr int32_t kMostDevices = 64;

  static Process& get();

  // Throws EMURT_ERROR_FORKED or EMURT_ERROR_SHUT_DOWN.
  void require_usable() const;

  uint32_t device_count();
  emu_device* device(int32_t index);   // opened on first use
  Context& context(int32_t index);     // opened on first use
  Context* context_if_open(int32_t index);
  Counters& counters(int32_t index);
  // A context for pinned memory: of the first device in use, else device 0.
  Context& any_context();

  // The open context whose pinned memory holds `pointer`, or null.
  Context* context_of_pinned(const void* pointer);

  // Throws what a status of a driver call on no context means.
  void check(emu_status status, int32_t index);

  // Throws EMU_ERROR_STALE_HANDLE if the address is in memory from before a reset. (No address is used twice in a
  // process, so it is in nothing else.)
  void require_present(uint64_t address) const;

  void reset(int32_t index);
  void shutdown();
  // At the process's exit: as shutdown, unless a device does not answer; then a line on stderr says so and it is left.
  void exit();

  bool is_shut_down() const { return state_.load(std::memory_order_acquire) == State::kShutDown; }
  bool activity_on() const { return activity_.on(); }
  Activity& activity() { return activity_; }
  const emu_driver_api& driver() { return driver_.api(); }
  DriverLibrary& driver_library() { return driver_; }

  HandleTable<emurt_stream, Queue*> streams{"stream"};
  HandleTable<emurt_event, std::shared_ptr<Event>> events{"event"};
  HandleTable<emurt_module, Module> modules{"module"};
  OldMemory old_memory;
  OldPinned old_pinned;
  Gate gate;

 private:
  enum class State { kUsable, kForked, kShutDown };
  struct Device {
    std::mutex mutex;
    emu_device* handle = nullptr;
    std::unique_ptr<Context> context;
    std::atomic<Context*> open{nullptr};  // the context, for calls that find it open
    Counters counters;
  };

  Process() = default;
  static void after_fork_in_child();
  Device& slot(int32_t index);
  emu_device* open_device(Device& device, int32_t index);
  void close_context(Device& device);
  bool devices_answer();
  std::atomic<State> state_{State::kUsable};
  std::atomic<bool> opened_{false};
  DriverLibrary driver_;
  Activity activity_;
  std::array<Device, kMostDevices> devices_;
};

}  // namespace emurt
