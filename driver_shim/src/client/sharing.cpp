#include "sharing.h"

#include <sys/mman.h>

#include <cerrno>

#include "entry.h"
#include "wait.h"

namespace emu::client {

Fence::Fence(std::shared_ptr<Context> context_, const emu_fence_token* token) : context(std::move(context_)) {
  const Response response = token == nullptr
                                ? context->request(RequestKind::fence_create)
                                : context->request(RequestKind::fence_import, token->part[0], token->part[1]);
  if (response.fds.size() != 1) {
    throw Error(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE, "emud gave a fence and did not send its page");
  }
  id = response.reply.value;
  page_ = Mapping(mmap(nullptr, kFencePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, response.fds[0].get(), 0),
                  kFencePageBytes);
  if (!page_) {
    const int number = errno;
    context->request(RequestKind::fence_destroy, id);
    throw host_error("mmap of a fence", number);
  }
  madvise(page_.get(), kFencePageBytes, MADV_DONTFORK);
}

bool Fence::wait(uint64_t value, uint64_t timeout_ns) {
  const Watched watched{page().value, page().waiters, context->device().connection};
  const auto reached = [&] { return page().value.load(std::memory_order_seq_cst) >= value; };
  const auto whole = [&] { return page().broken.load(std::memory_order_seq_cst) == 0; };
  switch (wait_until(watched, reached, whole, Queue::ring_all_again, timeout_ns)) {
    case Waited::done: return true;
    case Waited::time_is_up: return false;
    case Waited::ended:
      if (!context->device().connection.is_lost()) break;
      [[fallthrough]];
    case Waited::device_lost: context->throw_lost(QueueState::device_lost);
  }
  page().cause[sizeof page().cause - 1] = '\0';
  throw Error(EMU_ERROR_FENCE_BROKEN, EMU_SCOPE_COMMAND, page().cause,
              "make a new fence with processes that are there");
}

uint64_t Context::peer(Context& other) {
  const std::lock_guard lock(peers_mutex_);
  Peer& known = peers_[&other]; // which may have been another one, that is gone
  if (known.context.lock().get() == &other) return known.id;
  const Reply token = other.request(RequestKind::peer_export).reply;
  known = {request(RequestKind::peer_import, token.value, token.count).reply.value, other.weak_from_this()};
  return known.id;
}

emu_status fence_create(emu_context* context, emu_fence** out) {
  return guarded([&] {
    output(out) = nullptr;
    const auto in = tables().contexts.get(context);
    *out = tables().fences.add([&] { return std::make_shared<Fence>(in, nullptr); });
  });
}

emu_status fence_export(emu_fence* fence, uint32_t flags, emu_fence_token* out) {
  return guarded([&] {
    output(out) = {};
    require((flags & ~EMU_FENCE_MAY_SIGNAL) == 0, "no flag but EMU_FENCE_MAY_SIGNAL");
    const auto from = tables().fences.get(fence);
    const Reply reply = from->context->request(RequestKind::fence_export, from->id, flags & EMU_FENCE_MAY_SIGNAL).reply;
    *out = {{reply.value, reply.count}};
  });
}

emu_status fence_import(emu_context* context, const emu_fence_token* token, emu_fence** out) {
  return guarded([&] {
    output(out) = nullptr;
    require(token != nullptr, "a token, got a null pointer");
    const auto in = tables().contexts.get(context);
    *out = tables().fences.add([&] { return std::make_shared<Fence>(in, token); });
  });
}

emu_status fence_destroy(emu_fence* fence) {
  return guarded([&] {
    tables().fences.remove(fence, [](const std::shared_ptr<Fence>& gone) {
      gone->context->request(RequestKind::fence_destroy, gone->id);
    });
  });
}

emu_status fence_value(emu_fence* fence, uint64_t* value) {
  return guarded([&] { output(value) = tables().fences.get(fence)->value(); });
}

emu_status fence_signal(emu_fence* fence, uint64_t value) {
  return guarded([&] {
    const auto to = tables().fences.get(fence);
    to->context->request(RequestKind::fence_signal, to->id, value);
  });
}

emu_status fence_synchronize(emu_fence* fence, uint64_t value, uint64_t timeout_ns) {
  return synchronize([&] { return tables().fences.get(fence)->wait(value, timeout_ns); });
}

namespace {

emu_status submit_fence(emu_queue* queue, CommandKind kind, emu_fence* fence, uint64_t value, uint64_t correlation,
                        uint64_t* sequence) {
  return submit(queue, kind, correlation, sequence, [&](Queue& to, Command& command) {
    const auto what = tables().fences.get(fence);
    require(what->context == to.context, "a fence of the queue's context: import it there");
    command.target = what->id;
    command.source = value;
  });
}

} // namespace

emu_status queue_signal_fence(emu_queue* queue, emu_fence* fence, uint64_t value, uint64_t correlation,
                              uint64_t* sequence) {
  return submit_fence(queue, CommandKind::signal_fence, fence, value, correlation, sequence);
}

emu_status queue_wait_fence(emu_queue* queue, emu_fence* fence, uint64_t value, uint64_t correlation,
                            uint64_t* sequence) {
  return submit_fence(queue, CommandKind::wait_fence, fence, value, correlation, sequence);
}

emu_status link_info(emu_device* device, uint32_t index, emu_link_info* out) {
  return guarded([&] { give_from(device, RequestKind::link_info, out, index); });
}

emu_status link_set_up(emu_device* device, uint32_t index, int32_t up) {
  return guarded([&] {
    tables().devices.get(device)->connection.request(of_device(RequestKind::link_set_up, index, up != 0 ? 1 : 0));
  });
}

emu_status queue_copy_peer(emu_queue* queue, emu_context* to_context, uint64_t to, emu_context* from_context,
                           uint64_t from, uint64_t bytes, uint64_t correlation, uint64_t* sequence) {
  return submit(queue, CommandKind::copy_peer, correlation, sequence, [&](Queue& on, Command& command) {
    const auto target = tables().contexts.get(to_context), source = tables().contexts.get(from_context);
    require(target != source, "two contexts, got the same one twice: queue_copy_on_device copies within one");
    require(on.context == target || on.context == source, "a queue of one of the two contexts");
    const bool pulls = on.context == target;
    command.target = to;
    command.source = from;
    command.offset = on.context->peer(pulls ? *source : *target);
    command.length = bytes;
    command.grid[0] = pulls ? 1 : 0;
  });
}

} // namespace emu::client
