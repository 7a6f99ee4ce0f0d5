/* What handles stand for. An object keeps alive what it lives in, so the order in which a
 * caller lets go of things does not matter. */
#ifndef EMU_CLIENT_OBJECTS_H
#define EMU_CLIENT_OBJECTS_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "connection.h"
#include "fence_page.h"
#include "handles.h"
#include "ring.h"
#include "wait.h"

namespace emu::client {

struct Device {
  Device(Descriptor socket, const std::string& what) : connection(std::move(socket), what) {}

  Connection connection;
  bool pads_arguments = true; // for the erratum argument-tail; a stepping that is not known here may have it
};

/* Pinned memory: shared with the device, known there by a number. */
struct Buffer {
  Mapping memory;
  uint64_t id;
};

class Context : public std::enable_shared_from_this<Context> {
 public:
  /* Makes it on the device, for a caller that was built for that interface. */
  Context(std::shared_ptr<Device> device, uint32_t caller);
  void destroy();

  Response request(RequestKind kind, uint64_t object = 0, uint64_t value = 0, uint64_t bytes = 0, int fd = -1);
  Request message(RequestKind kind) const { return {uint32_t(kind), 0, id_, 0, 0, 0}; }

  void* host_alloc(uint64_t bytes);
  void host_free(void* pointer);
  struct Range {
    uint64_t buffer;
    uint64_t offset;
  };
  Range pinned(const void* pointer, uint64_t bytes) const; // throws when it is not in pinned memory

  [[noreturn]] void throw_fault();        // the fault that lost this context
  [[noreturn]] void throw_lost(QueueState state);

  uint64_t peer(Context& other); // the number by which commands of this one name it
  const bool drains_queues; // its caller is of before 1.2, and destroys a queue once all is done
  Device& device() { return *device_; }

 private:
  const std::shared_ptr<Device> device_;
  uint64_t id_;
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Buffer> buffers_; // by address
  struct Peer {
    uint64_t id;
    std::weak_ptr<Context> context;
  };
  std::mutex peers_mutex_;
  std::map<const Context*, Peer> peers_;
};

struct Program {
  std::shared_ptr<Context> context;
  uint64_t id;
  uint64_t argument_bytes;
};

class Queue {
 public:
  Queue(std::shared_ptr<Context> context, uint32_t kind, int32_t priority); // makes it on the device
  ~Queue();
  void destroy();
  void reset();

  const std::shared_ptr<Context> context;
  uint32_t id() const { return id_; }

  uint64_t submit(const Command& command, const void* arguments = nullptr, size_t bytes = 0);
  uint64_t cancel(uint64_t from, uint32_t flags);      // the first that is passed over
  uint64_t completed();                                // throws the fault of the context
  bool wait(uint64_t value, uint64_t timeout_ns);      // false: the time is up
  /* A doorbell may be lost: for who waits for what any queue of the process is to do. Cheap when called often. */
  static void ring_all_again();

 private:
  RingHeader& header() const { return *static_cast<RingHeader*>(ring_.get()); }
  void copy_in(uint64_t at, const void* from, size_t bytes);
  void require_running();
  emu_error fault(uint64_t value);
  void ring();
  void ring_again(uint64_t now);
  void make_room(size_t bytes);
  template <typename Done>
  Waited wait_until(const Done& done, uint64_t timeout_ns);

  uint32_t id_ = 0;
  uint64_t ring_bytes_ = 0;
  Descriptor doorbell_;
  Mapping ring_;
  std::mutex mutex_; // submission
  uint64_t tail_ = 0;
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> ring_again_ns_{0}; // not before
};

class Fence {
 public:
  Fence(std::shared_ptr<Context> context, const emu_fence_token* token); // makes one where there is no token

  const std::shared_ptr<Context> context;
  uint64_t id;
  uint64_t value() const { return page().value.load(std::memory_order_acquire); }
  bool wait(uint64_t value, uint64_t timeout_ns); // false: the time is up

 private:
  FencePage& page() const { return *static_cast<FencePage*>(page_.get()); }

  Mapping page_;
};

/* Pinned memory whose context was destroyed: plain memory, until `host_free`. */
class Orphans {
 public:
  void adopt(std::map<uintptr_t, Buffer> buffers);
  bool free(const void* pointer); // false: not the start of any

 private:
  std::mutex mutex_;
  std::map<uintptr_t, Buffer> buffers_;
};

/* All handles of the process. Never destroyed: threads may still call while it exits. */
struct Tables {
  Handles<emu_device, Device> devices{"device"};
  Handles<emu_context, Context> contexts{"context"};
  Handles<emu_queue, Queue> queues{"queue"};
  Handles<emu_program, Program> programs{"program"};
  Handles<emu_fence, Fence> fences{"fence"};
  Orphans orphans;
};
Tables& tables();

std::shared_ptr<Device> open_device(uint32_t index);

} // namespace emu::client

#endif
