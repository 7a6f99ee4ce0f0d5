#include "engine.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <tuple>

#include "commands.h"
#include "device.h"
#include "execute.h"
#include "refusal.h"

namespace emu {
namespace {

constexpr uint64_t kSpinNs = 100'000;
constexpr useconds_t kNoMemoryUs = 1000;

bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET; // each ring is an edge: nobody has to read the counter
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

Engine::Engine(Device& device, emu_queue_kind kind)
    : device_(device), kind_(kind), epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), turns_(kind) {
  if (!epoll_ || !bell_ || !watch(epoll_.get(), bell_.get())) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("an engine cannot start: %s", std::strerror(errno)));
  }
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& error) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, format("an engine cannot start: a thread: %s", error.what()));
  }
}

Engine::~Engine() {
  stop();
  thread_.join();
}

void Engine::attach(const std::shared_ptr<Queue>& queue) {
  {
    const std::lock_guard lock(mutex_);
    attached_.push_back(queue);
    ++generation_;
  }
  if (!watch(epoll_.get(), queue->doorbell_fd())) {
    detach(queue);
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_QUEUE, format("no doorbell: %s", std::strerror(errno)));
  }
  knock();
}

void Engine::detach(const std::shared_ptr<Queue>& queue) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, queue->doorbell_fd(), nullptr);
  {
    const std::lock_guard lock(mutex_);
    std::erase(attached_, queue);
    ++generation_;
  }
  knock();
}

void Engine::replace(const std::shared_ptr<Queue>& before, const std::shared_ptr<Queue>& after) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::replace(attached_.begin(), attached_.end(), before, after);
    ++generation_;
  }
  knock();
}

void Engine::ring() {
  if (asleep_) knock();
}

void Engine::ring_if_blocked() {
  if (asleep_blocked_) knock();
}

void Engine::stop() {
  stop_ = true;
  knock();
}

void Engine::knock() {
  const uint64_t one = 1;
  (void)!write(bell_.get(), &one, sizeof one);
}

void Engine::loop() {
  Spin spin(kSpinNs);
  while (!stop_) {
    if (!refresh()) {
      usleep(kNoMemoryUs);
    } else if (Queue* queue = next()) {
      serve(*queue);
      spin.reset();
    } else if (!spin.again()) {
      sleep();
      spin.reset();
    }
  }
}

/* Takes over the queues that were attached and detached since. False when the host has no memory for them now. */
bool Engine::refresh() {
  if (generation_.load(std::memory_order_acquire) == seen_generation_) return true;
  std::vector<std::shared_ptr<Queue>> queues; // those before are let go of only after the lock
  const std::lock_guard lock(mutex_);
  try {
    queues = attached_;
  } catch (const std::bad_alloc&) {
    return false;
  }
  queues_.swap(queues);
  seen_generation_ = generation_;
  for (const auto& queue : queues_) queue->set_sleeping(false);
  return true;
}

Queue* Engine::next() {
  Queue* best = nullptr;
  const auto rank = [this](const Queue& queue) {
    const Account& client = *queue.context->account;
    return std::tuple(turns_.start(client), client.last_served[kind_], queue.priority, queue.last_served);
  };
  blocked_ = false;
  for (const auto& queue : queues_) {
    if (ready(*queue) && (best == nullptr || rank(*queue) < rank(*best))) best = queue.get();
  }
  if (best == nullptr) turns_.idle();
  return best;
}

bool Engine::ready(Queue& queue) {
  const Context& context = *queue.context;
  if (queue.destroyed || queue.stopped || queue.is_lost() || context.lost || context.stopped || context.yielding > 0) {
    return false;
  }
  if (queue.is_deaf() && !hears(queue)) return false;
  switch (queue.peek()) {
    case Queue::Head::empty: return false;
    case Queue::Head::malformed: return true;
    case Queue::Head::ready: break;
  }
  if (!queue.cancelled() && !wait_is_over(queue)) {
    blocked_ = true;
    return false;
  }
  if (!queue.found_ticks) queue.found_ticks = device_.engine_ticks(kind_);
  return true;
}

void Engine::serve(Queue& queue) {
  Context& context = *queue.context;
  const std::lock_guard running(context.running[kind_]);
  if (context.stopped || context.lost || queue.destroyed || queue.stopped) return;
  // Again: the queue that it waited for was lost, and may have been reset since.
  if (queue.malformed().empty() && !queue.cancelled() && !wait_is_over(queue)) return;
  // What was allocated before the command was submitted is seen by it; the order of the two went
  // through the client's process, which the language knows nothing of.
  (void)context.mappings.load(std::memory_order_acquire);
  queue.last_served = context.account->last_served[kind_] = ++served_;
  turns_.serve(*context.account, execute(device_, queue));
  device_.progress(kind_);
}

/* Those that have just woken this engine, where a fault says so. */
void Engine::lose_doorbells() {
  for (const auto& queue : queues_) {
    const Context& context = *queue->context;
    if (!context.knows_queue_loss || queue->is_deaf() || !queue->has_unseen_command()) continue;
    const Faults::Target target{context.owner, queue->id, 0};
    if (device_.faults().strike_by(EMU_FAULT_LOST_DOORBELL, target) != 0) queue->lose_doorbell();
  }
}

bool Engine::hears(Queue& queue) {
  if (!queue.hears()) return false;
  queue.set_sleeping(false);
  emu_event event = new_event(EMU_EVENT_FAULT, EMU_OK, EMU_SCOPE_COMMAND);
  event.process = queue.context->owner;
  event.context = queue.context->id;
  event.queue = queue.id;
  event.command = queue.sequence();
  device_.note(event, "the doorbell for the command was lost, and the client rang again", queue.context->user);
  return true;
}

void Engine::sleep() {
  for (const auto& queue : queues_) queue->set_sleeping(true);
  asleep_ = true;
  asleep_blocked_ = true; // before the last look, so that what completes after it rings
  const bool work = next() != nullptr;
  asleep_blocked_ = blocked_;
  if (!work && !stop_ && generation_ == seen_generation_) {
    epoll_event events[16];
    epoll_wait(epoll_.get(), events, 16, -1);
    if (device_.faults().armed()) lose_doorbells();
  }
  asleep_ = asleep_blocked_ = false;
  for (const auto& queue : queues_) queue->set_sleeping(false);
}

} // namespace emu
