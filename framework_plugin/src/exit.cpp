#include "exit.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace emu {
namespace {

std::atomic<bool> parking{false};
std::thread::id running;

constexpr std::chrono::seconds kAWhile{5};

}  // namespace

void run_for_a_while(const std::function<void()>& work) {
  const auto task = std::make_shared<std::packaged_task<void()>>(work);
  std::future<void> done = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (done.wait_for(kAWhile) == std::future_status::ready) done.get();  // raises what the work raised
}

void park_other_threads() noexcept {
  running = std::this_thread::get_id();
  parking.store(true, std::memory_order_release);
}

void park_here() {
  if (!parking.load(std::memory_order_acquire) || std::this_thread::get_id() == running) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace emu
