#include "fence.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "device.h"
#include "refusal.h"
#include "ring.h"
#include "shared.h"

namespace emu {

Fence::Hold::Hold(std::shared_ptr<Fence> fence_, Device& device, bool may_signal_, Quota& quota)
    : fence(std::move(fence_)), may_signal(may_signal_), device_(device), one_(quota, 1) {
  Shared made = share("emu-fence", kFencePageBytes);
  if (!made.memory) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, format("no page for a fence: %s", std::strerror(errno)));
  }
  fd_ = std::move(made.fd);
  page_ = std::move(made.memory);
  const std::lock_guard lock(fence->mutex_);
  fence->holds_.push_back(this);
  page().value = fence->value();
  if (fence->broken_) {
    std::memcpy(page().cause, fence->cause_, sizeof fence->cause_);
    page().broken = 1;
  }
}

Fence::Hold::~Hold() {
  const std::lock_guard lock(fence->mutex_);
  std::erase(fence->holds_, this);
  copy_text(page().cause, "the fence's handle was destroyed, or its context"); // whoever still waits with it
  page().broken.store(1, std::memory_order_seq_cst);
  wake_all(page().value);
  const auto may = [](const Hold* hold) { return hold->may_signal; };
  if (may_signal && std::none_of(fence->holds_.begin(), fence->holds_.end(), may)) {
    fence->break_locked("the fence is broken: nobody is left who may signal it");
  }
}

void Fence::Hold::tell() const {
  page().value.store(fence->value_, std::memory_order_seq_cst);
  if (page().waiters.load(std::memory_order_seq_cst) != 0) wake_all(page().value);
  device_.ring_if_blocked();
}

std::string Fence::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

uint64_t Fence::ticks(uint64_t value) const {
  const std::lock_guard lock(mutex_);
  uint64_t ticks = 0;
  const size_t kept = std::min(signalled_, signals_.size());
  // What is not kept was earlier, so the first one kept is never too early.
  for (size_t back = 1; back <= kept; ++back) {
    const Signal& signal = signals_[(signalled_ - back) % signals_.size()];
    if (signal.value < value) break;
    ticks = signal.ticks;
  }
  return value == 0 ? 0 : ticks;
}

void Fence::signal(uint64_t value, uint64_t ticks) noexcept {
  const std::lock_guard lock(mutex_);
  if (broken_ || value <= value_) return;
  if (signalled_ > 0) ticks = std::max(ticks, signals_[(signalled_ - 1) % signals_.size()].ticks);
  signals_[signalled_++ % signals_.size()] = {value, ticks};
  value_ = value;
  for (const Hold* hold : holds_) hold->tell();
}

void Fence::break_for(std::string_view cause) noexcept {
  const std::lock_guard lock(mutex_);
  break_locked(cause);
}

void Fence::break_locked(std::string_view cause) noexcept {
  if (broken_) return;
  copy_text(cause_, cause);
  broken_ = true;
  for (const Hold* hold : holds_) {
    std::memcpy(hold->page().cause, cause_, sizeof cause_);
    hold->page().broken.store(1, std::memory_order_seq_cst);
    hold->tell();
  }
}

std::shared_ptr<Fence> Fences::make() {
  auto fence = std::make_shared<Fence>();
  fence->signal_token = signal_.add(fence);
  fence->wait_token = wait_.add(fence);
  return fence;
}

std::shared_ptr<Fence> Fences::find(const Token& token, bool& may_signal) const {
  std::shared_ptr<Fence> fence = signal_.find(token);
  may_signal = fence != nullptr;
  if (!fence) fence = wait_.find(token);
  if (fence) return fence;
  throw Refusal(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_COMMAND, "the token is of no fence of this device process",
                "import it while a process holds the fence");
}

} // namespace emu
