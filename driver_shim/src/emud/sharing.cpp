/* Context: what it shares with others, fences and itself as a peer. */
#include <cstdio>

#include "context.h"
#include "device.h"
#include "entry.h"
#include "refusal.h"

namespace emu {
namespace {

constexpr size_t kMaxPeers = 64;

Refusal stale_fence(uint64_t id) {
  return Refusal(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_COMMAND,
                 format("no fence %llu in this context", static_cast<unsigned long long>(id)));
}

Refusal may_not_signal() {
  return Refusal(EMU_ERROR_PERMISSION, EMU_SCOPE_COMMAND, "the fence was imported to wait for it, not to signal it",
                 "import a token that was exported with EMU_FENCE_MAY_SIGNAL");
}

} // namespace

uint64_t Context::fence_hold(const std::optional<Token>& token, Descriptor& page) {
  bool may_signal = true;
  auto fence = token ? device.board().fences.find(*token, may_signal) : device.board().fences.make();
  auto hold = std::make_shared<Fence::Hold>(std::move(fence), device, may_signal, quotas_->fences);
  page = hold->take_fd();
  const std::lock_guard lock(mutex_);
  fences_.emplace(next_id_, std::move(hold));
  return next_id_++;
}

std::shared_ptr<Fence::Hold> Context::fence(uint64_t id_) const {
  const std::lock_guard lock(mutex_);
  const auto found = fences_.find(id_);
  return found == fences_.end() ? nullptr : found->second;
}

Token Context::fence_export(uint64_t id_, bool may_signal) const {
  const auto hold = fence(id_);
  if (!hold) throw stale_fence(id_);
  if (may_signal && !hold->may_signal) throw may_not_signal();
  return may_signal ? hold->fence->signal_token : hold->fence->wait_token;
}

void Context::fence_signal(uint64_t id_, uint64_t value) {
  const auto hold = fence(id_);
  if (!hold) throw stale_fence(id_);
  if (!hold->may_signal) throw may_not_signal();
  if (hold->fence->is_broken()) throw Refusal(EMU_ERROR_FENCE_BROKEN, EMU_SCOPE_COMMAND, hold->fence->cause());
  hold->fence->signal(value, 0);
}

void Context::fence_destroy(uint64_t id_) {
  decltype(fences_)::node_type gone; // let go of after the lock
  {
    const std::lock_guard lock(mutex_);
    gone = fences_.extract(id_);
  }
  if (!gone) throw stale_fence(id_);
  device.ring(); // a queue may be waiting for it
}

void Context::break_fences(std::string_view cause) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [id_, hold] : fences_) {
    if (hold->may_signal) hold->fence->break_for(cause);
  }
}

void Context::break_signals(const Queue& queue, uint64_t most) noexcept {
  char why[128];
  std::snprintf(why, sizeof why,
                "the fence is broken: queue %u of process %d, which was to signal it, was lost, reset or destroyed",
                queue.id, owner);
  const std::lock_guard lock(mutex_);
  queue.for_waiting(most, [&](const Command& command) {
    if (CommandKind(command.kind) != CommandKind::signal_fence) return;
    const auto found = fences_.find(command.target);
    if (found != fences_.end() && found->second->may_signal) found->second->fence->break_for(why);
  });
}

Token Context::peer_export() {
  if (!peer_token_) peer_token_ = device.board().peers.add(shared_from_this());
  return *peer_token_;
}

uint64_t Context::peer_import(const Token& token) {
  const std::shared_ptr<Context> peer = device.board().peers.find(token);
  // The kernel says whose a client is: a token that leaked is of no use to another process, and where those of other
  // PID namespaces look like one, to no other user.
  if (!peer || peer.get() == this || peer->quotas_ != quotas_ || peer->owner != owner || peer->user != user) {
    throw Refusal(EMU_ERROR_PERMISSION, EMU_SCOPE_COMMAND, "the token is of no other context of this process");
  }
  if (&peer->device != &device && device.board().links.between(device.index, peer->device.index) == nullptr) {
    throw Refusal(EMU_ERROR_NOT_SUPPORTED, EMU_SCOPE_COMMAND,
                  format("no link joins the devices %u and %u", device.index, peer->device.index),
                  "copy over a device that has links to both, or through the host");
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [id_, known] : peers_) {
    if (known.lock() == peer) return id_;
  }
  if (peers_.size() >= kMaxPeers) {
    throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                  format("peers of a context: expected at most %zu, got one more", kMaxPeers), "destroy some first");
  }
  peers_.emplace(next_id_, peer);
  return next_id_++;
}

std::shared_ptr<Context> Context::peer(uint64_t id_) const {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(id_);
  return found == peers_.end() ? nullptr : found->second.lock();
}

} // namespace emu
