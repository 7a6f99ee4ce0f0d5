/* An address space and all that lives in it: memory, pinned host buffers, programs, queues.
 *
 * Made and changed by the session of its client, used by the device's engines. A fault
 * loses the context: its commands stop, its client is told, and it can only be destroyed. */
#ifndef EMU_CONTEXT_H
#define EMU_CONTEXT_H

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <vector>

#include "account.h"
#include "descriptor.h"
#include "emu/driver.h"
#include "fence.h"
#include "machine.h"
#include "memory.h"
#include "queue.h"
#include "quota.h"

namespace emu {

class Device;

/* Whose a context is, as the kernel says. A process of a PID namespace that is not seen from here is 0. */
struct Client {
  pid_t process;
  uid_t user;
  uint32_t library; // interface of its libemudrv
  uint32_t caller;  // interface that whoever calls that was built for, in this context
};

class Context : public std::enable_shared_from_this<Context> {
 public:
  /* `number` counts the contexts of the client's process, and decides the addresses. Throws Refusal. */
  Context(Device& device, uint64_t id, const Client& client, uint64_t number, std::shared_ptr<Quotas> quotas,
          std::shared_ptr<Account> account);
  ~Context();

  Device& device;
  const uint64_t id;
  const pid_t owner;
  const uid_t user; // of the owner
  const std::shared_ptr<Account> account; // of the owner
  const bool knows_errata; // its library works around them
  const bool knows_queue_loss; // its caller: kQueueLossInterface

  // Requests of the client; each throws Refusal.
  uint64_t memory_alloc(uint64_t bytes);
  void memory_free(uint64_t address);
  void memory_protect(uint64_t address, uint64_t bytes, uint64_t access); // flags of driver.h
  uint64_t host_register(Descriptor fd, uint64_t bytes);
  void host_unregister(uint64_t buffer);
  uint64_t program_load(const std::vector<std::byte>& binary);
  void program_unload(uint64_t program);
  std::shared_ptr<Queue> queue_create(uint64_t kind, int32_t priority);
  void queue_destroy(uint64_t queue);
  void queue_reset(uint64_t queue);
  emu_error queue_fault(uint64_t queue, uint64_t sequence) const; // why it will not be done; EMU_OK: nothing says so
  uint64_t queue_cancel(uint64_t queue, uint64_t from, uint64_t to, bool running); // the first that is passed over
  uint64_t fence_hold(const std::optional<Token>& token, Descriptor& page); // of one that is made, where there is none
  Token fence_export(uint64_t fence, bool may_signal) const;
  void fence_signal(uint64_t fence, uint64_t value);
  void fence_destroy(uint64_t fence);
  Token peer_export();
  uint64_t peer_import(const Token& token);
  emu_memory_info memory_info() const;
  emu_error fault() const;
  void require_usable() const; // Refusal EMU_ERROR_CONTEXT_LOST after a fault
  void stop() noexcept;
  void break_fences(std::string_view cause) noexcept; // those that it could signal
  /* Those that `most` commands of the queue, which will not run, would have signalled. */
  void break_signals(const Queue& queue, uint64_t most = UINT64_MAX) noexcept;
  void end() noexcept;         // stops, waits for what runs, then gives everything back

  // Activity records.
  std::atomic<bool> recording{false};
  void record(const emu_activity& activity);
  size_t take_activities(emu_activity* out, size_t capacity, uint64_t& dropped) noexcept; // how many

  // For engines. `running[e]` is held by engine e while it executes a command of this
  // context; who needs them both raises `yielding` first, so that engines step back.
  std::mutex running[2];
  std::atomic<int> yielding{0};
  std::atomic<uint64_t> mappings{0}; // moves with each new allocation; engines read it before a command
  std::atomic<bool> lost{false};
  std::atomic<bool> stopped{false}; // nothing of it starts any more, and what runs ends early
  std::shared_ptr<const machine::Program> program(uint64_t id) const;
  std::shared_ptr<const Mapping> buffer(uint64_t id) const;
  std::shared_ptr<Queue> queue(uint64_t id) const;
  std::shared_ptr<Fence::Hold> fence(uint64_t id) const;
  std::shared_ptr<Context> peer(uint64_t id) const; // none: it is gone
  /* Held shared by an engine that copies to or from this context as another one's peer: what it maps stays. */
  std::shared_mutex visits;
  std::atomic<int> awaiting_visits{0}; // raised by who needs it alone: engines that come without a pause step back
  /* Of a queue that was destroyed, open if unknown; and the end of the last command that it has done. */
  std::pair<Timeline::Outcome, uint64_t> retired(uint64_t queue, uint64_t sequence) const;
  machine::AddressSpace space() const { return window_.space(); }
  void fail(const emu_error& error); // the first one counts
  void device_lost();
  bool holds(uint64_t address) const noexcept { return window_.holds(address); } // a page that is mapped
  bool damage(uint64_t address) noexcept { return window_.damage(address); } // false: no memory of the context
  void mend(uint64_t address) noexcept { window_.mend(address); }
  void overwritten(uint64_t address, uint64_t bytes) noexcept; // what bit errors there were, are no more

  std::atomic<uint64_t> held_bytes{0};
  std::atomic<uint32_t> allocations{0};
  size_t queue_count() const;

 private:
  class Quiet; // no command of the context runs while one of these lives

  mutable std::mutex mutex_; // the maps, the fault and the activity records
  const std::shared_ptr<Quotas> quotas_;
  Quota::Share itself_;
  Window window_;            // changed only by the client's session
  struct LoadedProgram {
    std::shared_ptr<const machine::Program> program;
    Quota::Share one, bytes;
  };
  struct Buffer {
    std::shared_ptr<const Mapping> mapping;
    Quota::Share one, bytes;
  };
  using Retired = std::map<uint64_t, Timeline>;
  struct OpenQueue {
    std::shared_ptr<Queue> queue;
    Quota::Share one;
    Retired::node_type retired; // its entry there, for later
  };
  std::map<uint64_t, LoadedProgram> programs_;
  std::map<uint64_t, Buffer> buffers_;
  std::map<uint64_t, OpenQueue> queues_;
  Retired retired_;
  std::map<uint64_t, std::shared_ptr<Fence::Hold>> fences_;
  std::map<uint64_t, std::weak_ptr<Context>> peers_;
  std::optional<Token> peer_token_;
  uint64_t next_id_ = 1;
  emu_error fault_{};
  std::deque<emu_activity> activities_;
  uint64_t dropped_ = 0;
};

} // namespace emu

#endif
