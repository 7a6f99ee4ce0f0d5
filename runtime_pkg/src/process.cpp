#include "process.h"

#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <system_error>
#include <thread>

namespace emurt {

namespace {
constexpr std::chrono::seconds kAnswersWithin{5};  // at exit; a device that lives answers in milliseconds
std::atomic<Process*> current{nullptr};
std::mutex creation;
}  // namespace

Process& Process::get() {
  Process* process = current.load(std::memory_order_acquire);
  if (process != nullptr) return *process;
  std::lock_guard<std::mutex> lock(creation);
  process = current.load(std::memory_order_relaxed);
  if (process == nullptr) {
    process = new Process;
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    atexit([] { get().exit(); });
    current.store(process, std::memory_order_release);
  }
  return *process;
}

// Locks may have been held by threads that the child does not have: a refused process
// takes none, and an unused one is replaced.
void Process::after_fork_in_child() {
  Process& parent = *current.load(std::memory_order_acquire);
  if (parent.opened_.load()) {
    parent.state_.store(State::kForked);
  } else if (parent.state_.load() == State::kUsable) {
    auto* fresh = new Process;
    fresh->driver_.adopt(parent.driver_);
    current.store(fresh, std::memory_order_release);
  }
}

void Process::require_usable() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kUsable: return;
    case State::kForked:
      throw Failure(make_error(EMURT_ERROR_FORKED, EMU_SCOPE_HOST, -1,
                               "this process was forked from one that had used the device, and cannot use it",
                               "Start worker processes with the 'spawn' method "
                               "(multiprocessing.set_start_method('spawn')), or fork before the first use"));
    case State::kShutDown:
      throw Failure(make_error(EMURT_ERROR_SHUT_DOWN, EMU_SCOPE_HOST, -1, "the runtime of this process was shut down",
                               "Make no call after shutdown or from exit handlers"));
  }
}

Process::Device& Process::slot(int32_t index) {
  if (index < 0 || index >= kMostDevices) {
    fail(EMU_ERROR_INVALID_ARGUMENT, index, text("device %d: expected 0 to %d", index, kMostDevices - 1),
         "Use an index below device_count");
  }
  return devices_[static_cast<size_t>(index)];
}

void Process::check(emu_status status, int32_t index) {
  if (status == EMU_OK) return;
  emu_error error{};
  error.size = sizeof error;
  driver().last_error(&error);
  throw Failure(make_error(status, error.scope, index, error.cause, error.mend));
}

uint32_t Process::device_count() {
  uint32_t count = 0;
  check(driver().device_count(&count), -1);
  return count;
}

emu_device* Process::open_device(Device& device, int32_t index) {
  if (device.handle == nullptr) {
    const emu_driver_api& api = driver();
    opened_.store(true);
    emu_device* handle = nullptr;
    check(api.device_open(static_cast<uint32_t>(index), &handle), index);
    device.handle = handle;
  }
  return device.handle;
}

emu_device* Process::device(int32_t index) {
  Device& device = slot(index);
  std::lock_guard<std::mutex> lock(device.mutex);
  return open_device(device, index);
}

Context& Process::context(int32_t index) {
  Device& device = slot(index);
  if (Context* open = device.open.load(std::memory_order_acquire)) return *open;
  std::lock_guard<std::mutex> lock(device.mutex);
  if (device.context == nullptr) {
    emu_device* handle = open_device(device, index);
    device.context = std::make_unique<Context>(*this, driver(), handle, index, device.counters);
    device.open.store(device.context.get(), std::memory_order_release);
  }
  return *device.context;
}

Context* Process::context_if_open(int32_t index) { return slot(index).open.load(std::memory_order_acquire); }

Counters& Process::counters(int32_t index) { return slot(index).counters; }

Context& Process::any_context() {
  for (int32_t index = 0; index < kMostDevices; ++index) {
    if (Context* open = context_if_open(index)) return *open;
  }
  return context(0);
}

Context* Process::context_of_pinned(const void* pointer) {
  for (int32_t index = 0; index < kMostDevices; ++index) {
    Context* open = context_if_open(index);
    if (open != nullptr && open->pinned.maps(pointer)) return open;
  }
  return nullptr;
}

void Process::close_context(Device& device) {
  Context* context = device.context.get();
  if (context == nullptr) return;
  old_memory.keep(context->allocator.handed_out());
  device.open.store(nullptr);
  events.remove_if([&](const std::shared_ptr<Event>& event) { return &event->context() == context; });
  streams.remove_if([&](const Queue* queue) { return &queue->context == context; });
  modules.remove_if([&](const Module& module) { return module.context == context; });
  device.context.reset();
}

void Process::require_present(uint64_t address) const {
  if (!old_memory.contains(address)) return;
  fail(EMU_ERROR_STALE_HANDLE, -1,
       text("0x%llx is memory from before a reset of its device", static_cast<unsigned long long>(address)),
       "Allocate it again, and put there what it held");
}

void Process::reset(int32_t index) {
  {
    // What runs ends, and calls that wait for it return: then the gate can be had alone.
    Gate::Pass pass(gate);
    require_usable();
    if (Context* context = context_if_open(index)) context->end();
  }
  Gate::Closed alone(gate);
  require_usable();
  Device& device = slot(index);
  close_context(device);
  if (device.handle != nullptr) driver().device_close(device.handle);
  device.handle = nullptr;
}

void Process::exit() {
  if (state_.load() != State::kUsable) return;
  if (opened_.load() && !devices_answer()) {
    state_.store(State::kShutDown);
    fprintf(stderr,
            "emu-runtime: a device did not answer for %lld s while this process ended, and is left as it is; "
            "its emud may be stopped\n",
            static_cast<long long>(kAnswersWithin.count()));
    return;
  }
  shutdown();
}

// In a thread of its own, which is left behind where there is no answer.
bool Process::devices_answer() {
  auto answered = std::make_shared<std::promise<void>>();
  const std::future<void> answer = answered->get_future();
  try {
    std::thread([this, answered] {
      const Gate::Pass pass(gate);
      for (Device& device : devices_) {
        const std::lock_guard<std::mutex> lock(device.mutex);
        emu_telemetry telemetry{};
        telemetry.size = sizeof telemetry;
        if (device.handle != nullptr) driver().device_telemetry(device.handle, &telemetry);  // an error is an answer
      }
      answered->set_value();
    }).detach();
  } catch (const std::system_error&) {
    return true;  // no thread to ask in: close as if it answered
  }
  return answer.wait_for(kAnswersWithin) == std::future_status::ready;
}

void Process::shutdown() {
  if (state_.load() != State::kUsable) return;
  Gate::Closed alone(gate);
  if (state_.exchange(State::kShutDown) != State::kUsable) return;
  for (Device& device : devices_) {
    close_context(device);
    if (device.handle != nullptr) driver().device_close(device.handle);
    device.handle = nullptr;
  }
}

}  // namespace emurt
