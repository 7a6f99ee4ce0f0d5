#include "context.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "device.h"
#include "emu_constants.h"
#include "entry.h"
#include "protocol.h"
#include "refusal.h"
#include "status_name.h"

namespace emu {
namespace {

constexpr size_t kMaxActivities = 65536;
constexpr size_t kMaxRetired = 4096;

Refusal stale(const char* what, uint64_t id) {
  return Refusal(EMU_ERROR_STALE_HANDLE, EMU_SCOPE_COMMAND,
                 format("no %s %llu in this context", what, static_cast<unsigned long long>(id)));
}

/* Contexts of a process count up, each with the whole of its address bits. */
uint64_t base_of(uint64_t number) {
  constexpr uint64_t most = uint64_t(1) << (63 - constants::kAddressBits);
  if (number < most) return number << constants::kAddressBits;
  throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_CONTEXT,
                format("number of a context in its process: expected less than %llu, got %llu",
                       static_cast<unsigned long long>(most), static_cast<unsigned long long>(number)));
}

} // namespace

class Context::Quiet {
 public:
  explicit Quiet(Context& context) : context_(context) {
    ++context_.yielding;
    context_.running[0].lock();
    context_.running[1].lock();
    ++context_.awaiting_visits; // not before: what it waits for may take as long as a launch
    context_.visits.lock();     // last: an engine that visits holds `running` of its own context
  }
  ~Quiet() {
    context_.visits.unlock();
    --context_.awaiting_visits;
    context_.running[1].unlock();
    context_.running[0].unlock();
    --context_.yielding;
    // Engines may have gone to sleep over the context's commands, or over those of its peers on any device.
    context_.device.ring();
    if (!context_.peer_token_) return;
    for (Device* device : context_.device.board().devices) device->ring();
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  Context& context_;
};

Context::Context(Device& device_, uint64_t id_, const Client& client, uint64_t number, std::shared_ptr<Quotas> quotas,
                 std::shared_ptr<Account> account_)
    : device(device_), id(id_), owner(client.process), user(client.user), account(std::move(account_)),
      knows_errata(client.library >= kErrataInterface),
      knows_queue_loss(client.caller >= kQueueLossInterface), quotas_(std::move(quotas)),
      itself_(quotas_->contexts, 1),
      window_(device_.memory(), base_of(number), quotas_->mappings) {}

Context::~Context() = default;

void Context::require_usable() const {
  if (!lost) return;
  const std::lock_guard lock(mutex_);
  if (fault_.status == EMU_ERROR_STALE_HANDLE) { // by a reset
    throw Refusal(EMU_ERROR_STALE_HANDLE, emu_scope(fault_.scope), fault_.cause, fault_.mend);
  }
  throw Refusal(EMU_ERROR_CONTEXT_LOST, EMU_SCOPE_CONTEXT,
                format("the context was lost by an earlier fault: %s", fault_.cause),
                "destroy the context and make a new one");
}

uint64_t Context::memory_alloc(uint64_t bytes) {
  if (bytes == 0) throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, "expected at least 1 byte, got 0");
  const auto address = window_.alloc(bytes);
  if (!address) throw device.out_of_memory(bytes);
  held_bytes = window_.held_bytes();
  allocations = uint32_t(window_.allocations());
  mappings.fetch_add(1, std::memory_order_release);
  return *address;
}

void Context::memory_free(uint64_t address) {
  const Quiet quiet(*this);
  const uint64_t bytes = window_.free(address);
  if (bytes == 0) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("address 0x%llx is not the start of an allocation", static_cast<unsigned long long>(address)),
                  "free each address once, as memory_alloc gave it");
  }
  held_bytes = window_.held_bytes();
  allocations = uint32_t(window_.allocations());
  if (device.faults().armed()) device.faults().forget(id, address, bytes);
}

void Context::memory_protect(uint64_t address, uint64_t bytes, uint64_t access) {
  if ((access & ~uint64_t(EMU_MEMORY_READ | EMU_MEMORY_WRITE)) != 0) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("access to memory: expected EMU_MEMORY_READ, EMU_MEMORY_WRITE, both or 0, got %llu",
                         static_cast<unsigned long long>(access)));
  }
  if (address % constants::kPageBytes != 0 || bytes % constants::kPageBytes != 0 || bytes == 0) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("access to memory: expected whole pages of %llu bytes, got %llu bytes at 0x%llx",
                         static_cast<unsigned long long>(constants::kPageBytes), static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(address)));
  }
  const Quiet quiet(*this);
  const uint8_t flags = uint8_t(((access & EMU_MEMORY_READ) != 0 ? machine::kPageMayRead : 0) |
                                ((access & EMU_MEMORY_WRITE) != 0 ? machine::kPageWrite : 0));
  if (const auto bad = window_.protect(address, bytes, flags)) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("access to memory: no page of the context is at 0x%llx", (unsigned long long)*bad),
                  "name pages of allocations that are held");
  }
}

uint64_t Context::host_register(Descriptor fd, uint64_t bytes) {
  // The seal is what makes reading it safe: memory that shrinks under a copy would end emud.
  const int seals = fd ? fcntl(fd.get(), F_GET_SEALS) : -1;
  struct stat status {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &status) != 0 || bytes == 0 ||
      uint64_t(status.st_size) < bytes) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  "pinned memory has to be a memfd of the size given, sealed against shrinking");
  }
  Quota::Share one(quotas_->mappings, 1), share(quotas_->registered_bytes, bytes);
  // The client has faulted the pages in already; where it has not, emud does not do it for it.
  const bool there = uint64_t(status.st_blocks) * 512 >= bytes;
  Mapping mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (there ? MAP_POPULATE : 0), fd.get(), 0),
                  bytes);
  if (!mapping) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_COMMAND,
                  format("pinned memory cannot be mapped by the device: mmap: %s", std::strerror(errno)));
  }
  auto shared = std::make_shared<const Mapping>(std::move(mapping));
  const std::lock_guard lock(mutex_);
  buffers_.emplace(next_id_, Buffer{std::move(shared), std::move(one), std::move(share)});
  return next_id_++;
}

void Context::host_unregister(uint64_t buffer) {
  const Quiet quiet(*this);
  const std::lock_guard lock(mutex_);
  if (buffers_.erase(buffer) == 0) throw stale("pinned buffer", buffer);
}

uint64_t Context::program_load(const std::vector<std::byte>& binary) {
  Quota::Share one(quotas_->programs, 1), bytes(quotas_->program_bytes, binary.size());
  std::string why;
  machine::ProgramPtr program = machine::load(binary, why);
  if (!program) throw Refusal(EMU_ERROR_BAD_PROGRAM, EMU_SCOPE_COMMAND, "the program was refused: " + why);
  const std::lock_guard lock(mutex_);
  programs_.emplace(next_id_, LoadedProgram{std::move(program), std::move(one), std::move(bytes)});
  return next_id_++;
}

void Context::program_unload(uint64_t id_) {
  const std::lock_guard lock(mutex_);
  if (programs_.erase(id_) == 0) throw stale("program", id_);
}

std::shared_ptr<Queue> Context::queue_create(uint64_t kind, int32_t priority) {
  if (kind > EMU_QUEUE_COPY) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, "kind of a queue: expected compute (0) or copy (1)");
  }
  if (queues_.size() >= constants::kMaxQueues) {
    throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                  format("a context has at most %u queues, and they are all taken", constants::kMaxQueues),
                  "give some back first");
  }
  Quota::Share one(quotas_->queues, 1);
  auto queue = std::make_shared<Queue>(shared_from_this(), device.next_queue_id(), emu_queue_kind(kind), priority);
  auto entry = new_entry<decltype(queues_)>();
  entry.key() = queue->id;
  entry.mapped() = OpenQueue{queue, std::move(one), new_entry<Retired>()};
  device.attach(queue);
  const std::lock_guard lock(mutex_);
  queues_.insert(std::move(entry));
  if (lost) queue->set_state(QueueState::context_lost); // meanwhile
  if (stopped) queue->stop();
  return queue;
}

void Context::queue_destroy(uint64_t id_) {
  const std::shared_ptr<Queue> queue = this->queue(id_);
  if (!queue) throw stale("queue", id_);
  queue->stop();
  {
    const Quiet quiet(*this);
    break_signals(*queue); // that it will not give: some may have come after it was lost
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(id_);
    queue->destroyed = true;
    auto retired = std::move(found->second.retired);
    retired.key() = id_;
    retired.mapped() = queue->take_timeline();
    queues_.erase(found);
    retired_.insert(std::move(retired));
    if (retired_.size() > kMaxRetired) retired_.erase(retired_.begin());
  }
  device.detach(queue);
  queue->set_state(QueueState::destroyed);
}

void Context::queue_reset(uint64_t id_) {
  const std::shared_ptr<Queue> before = queue(id_);
  if (!before) throw stale("queue", id_);
  const auto after = std::make_shared<Queue>(*before); // before anything is ended
  before->stop();
  const Quiet quiet(*this);
  if (!after->give_up(*before)) { // by its client's doing: nothing is given up, and a launch that was cut starts again
    before->stopped = stopped.load();
    throw Refusal(EMU_ERROR_ILLEGAL_COMMAND, EMU_SCOPE_CONTEXT, "the ring of the queue holds what are no commands",
                  "destroy the context and make a new one");
  }
  {
    const std::lock_guard lock(mutex_);
    queues_.find(id_)->second.queue = after;
    before->destroyed = true;
    if (stopped) after->stop();
  }
  device.replace(before, after);
  const uint64_t given_up = after->completed() - before->completed();
  break_signals(*before, given_up);
  after->take_over();
  if (given_up == 0) return; // and the log has no place for what anybody can do for nothing
  emu_event event = new_event(EMU_EVENT_RESET, EMU_OK, EMU_SCOPE_QUEUE);
  event.process = owner;
  event.context = id;
  event.queue = after->id;
  event.command = after->completed();
  char text[sizeof event.text];
  std::snprintf(text, sizeof text, "queue %u was reset: %llu commands were given up", after->id,
                static_cast<unsigned long long>(given_up));
  device.note(event, text, user);
}

emu_error Context::queue_fault(uint64_t id_, uint64_t sequence) const {
  const std::shared_ptr<Queue> found = queue(id_);
  if (!found) throw stale("queue", id_);
  if (found->is_lost() && sequence > found->completed()) return found->fault();
  emu_error error{};
  error.size = sizeof error;
  if (found->outcome(sequence) != Timeline::Outcome::given_up) return error;
  error.status = EMU_ERROR_QUEUE_LOST;
  error.scope = EMU_SCOPE_QUEUE;
  error.queue = found->id;
  error.command = sequence;
  copy_text(error.cause, format("command %llu of queue %u was given up when the queue was reset",
                                static_cast<unsigned long long>(sequence), found->id));
  copy_text(error.mend, "submit again what the work needs");
  return error;
}

uint64_t Context::queue_cancel(uint64_t id_, uint64_t from, uint64_t to, bool running) {
  const auto found = queue(id_);
  if (!found) throw stale("queue", id_);
  if (to == UINT64_MAX) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, "last command to pass over: expected one, got none");
  }
  const uint64_t first = found->cancel(from, to, running);
  device.ring(); // its engine may be asleep over a wait
  return first;
}

emu_memory_info Context::memory_info() const {
  emu_memory_info info{};
  info.size = sizeof info;
  info.allocations = allocations;
  info.total_bytes = device.memory().total();
  info.free_bytes = device.memory().free_bytes();
  info.context_bytes = held_bytes;
  return info;
}

std::shared_ptr<const machine::Program> Context::program(uint64_t id_) const {
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(id_);
  return found == programs_.end() ? nullptr : found->second.program;
}

std::shared_ptr<const Mapping> Context::buffer(uint64_t id_) const {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(id_);
  return found == buffers_.end() ? nullptr : found->second.mapping;
}

std::shared_ptr<Queue> Context::queue(uint64_t id_) const {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(id_);
  return found == queues_.end() ? nullptr : found->second.queue;
}

std::pair<Timeline::Outcome, uint64_t> Context::retired(uint64_t id_, uint64_t sequence) const {
  const Timeline unknown;
  const std::lock_guard lock(mutex_);
  const auto found = retired_.find(id_);
  const Timeline& timeline = found == retired_.end() ? unknown : found->second;
  return {timeline.outcome(sequence), timeline.end_ticks};
}

size_t Context::queue_count() const {
  const std::lock_guard lock(mutex_);
  return queues_.size();
}

void Context::fail(const emu_error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (lost) return;
    fault_ = error;
    lost = true;
    for (const auto& [id_, open] : queues_) open.queue->set_state(QueueState::context_lost);
  }
  char why[sizeof(FencePage::cause)]; // others read it: the cause may have addresses and names of programs
  std::snprintf(why, sizeof why, "the fence is broken: a context of process %d, which could signal it, was lost by %s",
                owner, status_name(error.status));
  break_fences(why);
  emu_event event = new_event(EMU_EVENT_CONTEXT_LOST, emu_status(error.status), emu_scope(error.scope));
  event.process = owner;
  event.context = id;
  device.note(event, error.cause, user);
}

void Context::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped = true;
  for (const auto& [id_, open] : queues_) open.queue->stop();
}

void Context::overwritten(uint64_t address, uint64_t bytes) noexcept {
  if (bytes == 0) return; // and the address may be any
  constexpr uint64_t page = constants::kPageBytes;
  const uint64_t end = (address + bytes) / page * page;
  for (uint64_t at = (address + page - 1) / page * page; at < end; at += page) {
    if (!window_.is_damaged(at)) continue;
    device.faults().forget(id, at, page);
    window_.mend(at);
  }
}

void Context::device_lost() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id_, open] : queues_) open.queue->set_state(QueueState::device_lost);
}

emu_error Context::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void Context::end() noexcept {
  std::map<uint64_t, OpenQueue> queues;
  decltype(fences_) fences;
  stop();
  {
    const Quiet quiet(*this);
    for (const auto& [id_, open] : queues_) break_signals(*open.queue); // only this thread changes the map
    const std::lock_guard lock(mutex_);
    queues.swap(queues_);
    fences.swap(fences_);
    for (const auto& [id_, open] : queues) open.queue->destroyed = true;
    programs_.clear();
    buffers_.clear();
    window_.free_all();
    device.faults().forget(id, 0, UINT64_MAX);
    held_bytes = 0;
    allocations = 0;
  }
  itself_ = Quota::Share();
  for (const auto& [id_, open] : queues) {
    device.detach(open.queue);
    open.queue->set_state(QueueState::destroyed);
  }
}

void Context::record(const emu_activity& activity) {
  const std::lock_guard lock(mutex_);
  try {
    if (activities_.size() < kMaxActivities) return activities_.push_back(activity);
  } catch (const std::bad_alloc&) { // one of those that did not fit
  }
  ++dropped_;
}

size_t Context::take_activities(emu_activity* out, size_t capacity, uint64_t& dropped) noexcept {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(capacity, activities_.size());
  const auto end = activities_.begin() + ptrdiff_t(count);
  std::copy(activities_.begin(), end, out);
  activities_.erase(activities_.begin(), end);
  dropped = std::exchange(dropped_, 0);
  return count;
}

} // namespace emu
