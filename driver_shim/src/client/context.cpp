/* Contexts, and the pinned memory that lives in them. */
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "objects.h"

namespace emu::client {
namespace {

Error no_pinned_memory(uint64_t bytes, const char* call, int number) {
  return Error(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
               format("no pinned memory of %llu bytes: %s: %s", static_cast<unsigned long long>(bytes), call,
                      std::strerror(number)),
               "free pinned memory, or ask for less");
}

} // namespace

Context::Context(std::shared_ptr<Device> device, uint32_t caller)
    : drains_queues(caller < kQueueLossInterface), device_(std::move(device)) {
  static std::atomic<uint64_t> number{0}; // of this process: emud gives each its own addresses
  const uint64_t other = caller == EMU_DRIVER_INTERFACE ? 0 : caller;
  id_ = device_->connection.request({uint32_t(RequestKind::context_create), 0, 0, other, number++, 0}).reply.value;
}

/* Gone here too when emud is; where the host had too little to tell it, all is as before. */
void Context::destroy() {
  std::optional<Error> failed;
  try {
    request(RequestKind::context_destroy);
  } catch (const Error& error) {
    if (error.error.status == EMU_ERROR_HOST) throw;
    failed = error;
  }
  tables().queues.erase_if([this](const Queue& queue) { return queue.context.get() == this; });
  tables().programs.erase_if([this](const Program& program) { return program.context.get() == this; });
  tables().fences.erase_if([this](const Fence& fence) { return fence.context.get() == this; });
  {
    const std::unique_lock lock(mutex_);
    tables().orphans.adopt(std::exchange(buffers_, {}));
  }
  if (failed) throw *failed;
}

void Orphans::adopt(std::map<uintptr_t, Buffer> buffers) {
  const std::lock_guard lock(mutex_);
  buffers_.merge(buffers);
}

bool Orphans::free(const void* pointer) {
  const std::lock_guard lock(mutex_);
  return buffers_.erase(reinterpret_cast<uintptr_t>(pointer)) != 0;
}

Response Context::request(RequestKind kind, uint64_t object, uint64_t value, uint64_t bytes, int fd) {
  return device_->connection.request({uint32_t(kind), 0, id_, object, value, bytes}, fd);
}

void* Context::host_alloc(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  if (bytes == 0) throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, "expected at least 1 byte, got 0");
  if (bytes > uint64_t(1) << 46) throw no_pinned_memory(bytes, "size", ENOMEM);
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const Descriptor fd(memfd_create("emu-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw no_pinned_memory(bytes, "memfd_create", errno);
  // Real pages now, not at the first touch; and never fewer: emud asks for the seals.
  if (const int error = posix_fallocate(fd.get(), 0, off_t(bytes)); error != 0) {
    throw no_pinned_memory(bytes, "fallocate", error);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw host_error("fcntl(F_ADD_SEALS)", errno);
  }
  Mapping memory(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0), bytes);
  if (!memory) throw no_pinned_memory(bytes, "mmap", errno);
  void* const pointer = memory.get();
  std::map<uintptr_t, Buffer> one; // its place first: nothing is registered that is not known here
  Buffer& buffer = one.emplace(reinterpret_cast<uintptr_t>(pointer), Buffer{std::move(memory), 0}).first->second;
  buffer.id = request(RequestKind::host_register, 0, 0, bytes, fd.get()).reply.value;
  const std::unique_lock lock(mutex_);
  buffers_.merge(one);
  return pointer;
}

void Context::host_free(void* pointer) {
  std::map<uintptr_t, Buffer>::node_type taken;
  {
    const std::unique_lock lock(mutex_);
    const auto found = buffers_.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == buffers_.end()) {
      throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("pointer %p is not the start of pinned memory of this context", pointer),
                  "free each pointer once, as host_alloc gave it");
    }
    taken = buffers_.extract(found);
  }
  try {
    request(RequestKind::host_unregister, taken.mapped().id);
  } catch (const Error& error) {
    if (error.error.status == EMU_ERROR_HOST) {
      const std::unique_lock lock(mutex_);
      buffers_.insert(std::move(taken));
    }
    throw;
  }
}

Context::Range Context::pinned(const void* pointer, uint64_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::shared_lock lock(mutex_);
  auto it = buffers_.upper_bound(address);
  if (it != buffers_.begin()) {
    --it;
    const uint64_t offset = address - it->first;
    const uint64_t size = it->second.memory.bytes();
    if (offset <= size && bytes <= size - offset) return {it->second.id, offset};
  }
  throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
              format("%llu bytes at %p are not in pinned memory of this context",
                     static_cast<unsigned long long>(bytes), pointer),
              "allocate the host side of a copy with host_alloc");
}

void Context::throw_fault() {
  const auto fault = device_->connection.fetch<emu_error>(message(RequestKind::fault));
  if (fault.status == EMU_OK) throw_lost(QueueState::device_lost);
  throw Error(fault);
}

void Context::throw_lost(QueueState state) {
  switch (state) {
    case QueueState::context_lost: {
      emu_error error = device_->connection.fetch<emu_error>(message(RequestKind::fault));
      if (error.status == EMU_ERROR_STALE_HANDLE) throw Error(error); // the device was reset
      const std::string cause = error.cause;
      std::snprintf(error.cause, sizeof error.cause, "the context was lost by an earlier fault: %.300s", cause.c_str());
      std::snprintf(error.mend, sizeof error.mend, "destroy the context and make a new one");
      error.status = EMU_ERROR_CONTEXT_LOST;
      throw Error(error);
    }
    case QueueState::destroyed:
      if (device_->connection.is_lost()) break; // it went with the connection
      throw Error(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_QUEUE, "the queue was destroyed");
    case QueueState::device_lost:
    case QueueState::queue_lost: // its own fault says more
    case QueueState::running: break;
  }
  device_->connection.mark_lost();
  throw device_lost_error(device_->connection.emud());
}

} // namespace emu::client
