#include "commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <shared_mutex>
#include <string_view>

#include "stepping.h"

namespace emu {
namespace {

constexpr useconds_t kHangLookUs = 1000;

/* The command is cancelled; or whoever waits for it is gone, or is told that the context or device is. */
CommandFault stopped() { return {EMU_ERROR_CONTEXT_LOST, 0, "the command was ended early"}; }

emu_activity_kind activity_kind(CommandKind kind) {
  switch (kind) {
    case CommandKind::launch: return EMU_ACTIVITY_LAUNCH;
    case CommandKind::copy_to_device: return EMU_ACTIVITY_COPY_TO_DEVICE;
    case CommandKind::copy_from_device: return EMU_ACTIVITY_COPY_FROM_DEVICE;
    case CommandKind::copy_on_device: return EMU_ACTIVITY_COPY_ON_DEVICE;
    case CommandKind::fill: return EMU_ACTIVITY_FILL;
    case CommandKind::wait: return EMU_ACTIVITY_WAIT;
    case CommandKind::timestamp: return EMU_ACTIVITY_TIMESTAMP;
    case CommandKind::signal_fence: return EMU_ACTIVITY_SIGNAL;
    case CommandKind::wait_fence: return EMU_ACTIVITY_WAIT;
    case CommandKind::copy_peer: return EMU_ACTIVITY_COPY_PEER;
  }
  return EMU_ACTIVITY_FAULT;
}

CommandFault illegal(std::string cause) { return {EMU_ERROR_ILLEGAL_COMMAND, 0, std::move(cause)}; }

/* Host address of a device range, all of whose pages have the permission. */
std::byte* range(const machine::AddressSpace& space, uint64_t address, uint64_t bytes, uint8_t permission) {
  if (bytes == 0) return space.window;
  const std::optional<uint64_t> bad = machine::first_bad(space, address, bytes, permission);
  if (!bad) return space.window + (address - space.base);
  if (machine::has_bit_error(space, *bad, permission)) {
    throw CommandFault{EMU_ERROR_MEMORY_ERROR, *bad,
                       format("the command reads %llu bytes at 0x%llx, and the page at 0x%llx has bit errors that "
                              "cannot be corrected",
                              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address),
                              static_cast<unsigned long long>(*bad))};
  }
  throw CommandFault{EMU_ERROR_PAGE_FAULT, *bad,
                     format("page fault: the command %s %llu bytes at 0x%llx, and no page of the context allows it "
                            "at 0x%llx",
                            permission == machine::kPageRead ? "reads" : "writes",
                            static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address),
                            static_cast<unsigned long long>(*bad))};
}

/* A range of a pinned buffer, kept mapped by `held`. */
std::byte* pinned(const Context& context, uint64_t buffer, uint64_t offset, uint64_t bytes,
                  std::shared_ptr<const Mapping>& held) {
  held = context.buffer(buffer);
  if (!held) throw illegal("the command names pinned memory that is not registered");
  if (offset > held->bytes() || bytes > held->bytes() - offset) {
    throw illegal(format("the command leaves its pinned buffer: %llu bytes at offset %llu of %zu",
                         static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset),
                         held->bytes()));
  }
  return static_cast<std::byte*>(held->get()) + offset;
}

uint64_t copy_ticks(uint64_t bytes) {
  return constants::kCopyFixedTicks +
         (bytes + constants::kCopyBytesPerTick - 1) / constants::kCopyBytesPerTick;
}

/* The queue that the `wait` at a queue's head is for, as it is after its resets; none when it was destroyed. */
std::shared_ptr<Queue> awaited_by(Queue& queue) {
  auto awaited = queue.awaited.lock();
  if (!awaited || awaited->destroyed) queue.awaited = awaited = queue.context->queue(queue.command().target);
  return awaited;
}

} // namespace

Execution::Execution(Device& device, Queue& queue)
    : device_(device), queue_(queue), context_(*queue.context), command_(queue.command()), space_(context_.space()),
      ready_(queue.ready_ticks()) {
  space_.correction = this;
  work.power_mode = device_.power_mode();
  activity.kind = activity_kind(CommandKind(command_.kind));
}

void Execution::run() {
  if (!queue_.malformed().empty()) throw illegal(std::string(queue_.malformed()));
  if (device_.faults().armed()) strike();
  switch (CommandKind(command_.kind)) {
    case CommandKind::launch: return launch();
    case CommandKind::copy_to_device: return copy_to_device();
    case CommandKind::copy_from_device: return copy_from_device();
    case CommandKind::copy_on_device: return copy_on_device();
    case CommandKind::fill: return fill();
    case CommandKind::wait: return wait();
    case CommandKind::timestamp: return timestamp();
    case CommandKind::signal_fence: return signal_fence();
    case CommandKind::wait_fence: return wait_fence();
    case CommandKind::copy_peer: return copy_peer();
  }
  throw illegal(format("kind of a command: expected 1 to 10, got %u", command_.kind));
}

void Execution::pass_over() {
  if (CommandKind(command_.kind) == CommandKind::signal_fence) signal_fence();
}

Span Execution::advance() const {
  if (peer_) return device_.advance_with(peer_->device, link_, queue_.kind, ready_, work);
  return device_.advance(queue_.kind, ready_, work);
}

void Execution::slow_down() {
  // No command takes so long that the sums of the clock could overflow.
  constexpr uint64_t most = uint64_t(1) << 56;
  work.factor = std::min(work.factor, most / std::max<uint64_t>(1, work.cost.ticks + work.copy_ticks));
  if (work.factor <= 1) return;
  const auto slower = [this](machine::UnitTicks& ticks) {
    for (uint64_t* unit : {&ticks.matrix, &ticks.vector, &ticks.memory}) *unit *= work.factor;
  };
  work.cost.ticks *= work.factor;
  work.copy_ticks *= work.factor;
  slower(work.cost.total);
  slower(work.cost.busiest);
}

void Execution::report_bit_errors(emu_error& error) {
  if (corrected_ != 0) {
    read_->device.memory().count_errors(corrected_, 0);
    note(EMU_OK, EMU_SCOPE_COMMAND, "%llu bit errors were corrected", corrected_);
  }
  if (error.status != EMU_ERROR_MEMORY_ERROR) return;
  read_->device.memory().count_errors(0, 1);
  const uint64_t page = error.address & ~((uint64_t(1) << space_.page_shift) - 1);
  const Faults::BitErrors found = bit_errors(page);
  if (found.uncorrected) error.address = found.address;
}

void Execution::strike() {
  const Faults::Strike struck =
      device_.faults().strike({context_.owner, queue_.id, activity.kind});
  work.factor = struck.factor;
  if (struck.slowed_by != 0) note(EMU_OK, EMU_SCOPE_COMMAND, "fault %llu makes commands slow", struck.slowed_by);
  if (struck.kind == 0) return;
  if (CommandKind(command_.kind) == CommandKind::launch) {
    const auto program = context_.program(command_.target);
    if (program) copy_text(activity.program, machine::name(*program));
  }
  const auto kind = emu_fault_kind(struck.kind);
  if (kind == EMU_FAULT_HANG) hang();
  const constants::Fault& fault = about(kind);
  const bool page = kind == EMU_FAULT_PAGE_FAULT;
  throw CommandFault{fault.status, page ? first_address() : 0,
                     format("%s (injected fault %llu)",
                            page                               ? "page fault: the command was refused its first page"
                            : kind == EMU_FAULT_THERMAL_TRIP ? "the device was too hot and stopped"
                                                             : "the firmware of the device crashed",
                            static_cast<unsigned long long>(struck.number)),
                     fault.scope};
}

uint64_t Execution::first_address() const {
  switch (CommandKind(command_.kind)) {
    case CommandKind::copy_to_device:
    case CommandKind::copy_on_device:
    case CommandKind::fill: return command_.target;
    case CommandKind::copy_from_device: return command_.source;
    case CommandKind::copy_peer: return command_.grid[0] != 0 ? command_.target : command_.source;
    default: return 0;
  }
}

void Execution::hang() {
  work.launch = true;
  const auto deadline = std::chrono::steady_clock::now() + device_.launch_limit();
  while (std::chrono::steady_clock::now() < deadline) {
    if (queue_.ending) throw stopped();
    usleep(kHangLookUs);
  }
  throw timed_out("the launch hangs");
}

CommandFault Execution::timed_out(std::string cause) const {
  cause += format(": %g seconds", double(device_.launch_limit().count()) / 1000);
  return {EMU_ERROR_LAUNCH_TIMEOUT, 0, std::move(cause), scope_of_queue()};
}

Faults::BitErrors Execution::bit_errors(uint64_t page) {
  return read_->device.faults().read(read_->id, page, uint64_t(1) << space_.page_shift);
}

bool Execution::correct(uint64_t page) noexcept {
  const uint64_t start = read_->space().base + (page << space_.page_shift);
  const Faults::BitErrors found = bit_errors(start);
  if (found.uncorrected) return false;
  read_->mend(start);
  corrected_ += found.corrected;
  return true;
}

void Execution::note(emu_status status, emu_scope scope, const char* text, uint64_t number) {
  emu_event event = new_event(EMU_EVENT_FAULT, status, scope);
  event.process = context_.owner;
  event.context = context_.id;
  event.queue = queue_.id;
  event.command = queue_.sequence();
  char line[sizeof event.text];
  std::snprintf(line, sizeof line, text, static_cast<unsigned long long>(number));
  device_.note(event, line, context_.user);
}

void Execution::launch() {
  std::memcpy(activity.grid, command_.grid, sizeof activity.grid);
  const auto program = context_.program(command_.target);
  if (!program) throw illegal("the command launches a program that is not loaded");
  copy_text(activity.program, machine::name(*program));
  if (command_.length > queue_.arguments().size()) {
    throw illegal(format("arguments of a launch: expected at most the %zu bytes that follow, got %llu",
                         queue_.arguments().size(), static_cast<unsigned long long>(command_.length)));
  }
  std::span<const std::byte> arguments = queue_.arguments().first(command_.length);
  std::array<std::byte, kMaxArguments> fetched;
  if (device_.stepping().argument_tail && context_.knows_errata) arguments = without_tail(arguments, fetched);
  const size_t bytes = machine::args_bytes(*program);
  if (arguments.size() > bytes && arguments.size() <= whole_granules(bytes)) arguments = arguments.first(bytes);
  work.launch = true;
  const machine::Limits limits{device_.tick_budget(), std::chrono::steady_clock::now() + device_.launch_limit(),
                               &queue_.ending};
  machine::Fault fault;
  const bool ok = machine::run(*program, space_, command_.grid, arguments, limits, device_.pool(),
                               work.cost, fault);
  if (ok) return;
  if (fault.status == EMU_ERROR_LAUNCH_TIMEOUT) throw timed_out(fault.cause);
  throw CommandFault{fault.status, fault.address, fault.cause};
}

std::span<const std::byte> Execution::without_tail(std::span<const std::byte> arguments,
                                                   std::array<std::byte, kMaxArguments>& fetched) {
  const size_t whole = arguments.size() / constants::kArgumentGranule * constants::kArgumentGranule;
  if (whole == arguments.size()) return arguments;
  std::copy_n(arguments.begin(), whole, fetched.begin());
  std::fill(fetched.begin() + ptrdiff_t(whole), fetched.begin() + ptrdiff_t(arguments.size()), std::byte{0});
  return std::span<const std::byte>(fetched).first(arguments.size());
}

uint64_t Execution::ticks_of(uint64_t bytes) const {
  return link_ != nullptr ? link_->ticks(bytes) : copy_ticks(bytes);
}

void Execution::copied(Work::Direction direction) {
  activity.bytes = command_.length;
  work.direction = direction;
}

void Execution::moved(uint64_t bytes) {
  work.bytes = bytes;
  work.copy_ticks = ticks_of(bytes);
  if (bytes != command_.length) throw stopped();
}

void Execution::overwritten(Context& target) {
  if (target.device.faults().armed()) target.overwritten(command_.target, command_.length);
}

void Execution::copy(std::byte* to, const std::byte* from) {
  moved(device_.copier().copy(to, from, command_.length, queue_.ending));
}

void Execution::copy_to_device() {
  copied(Work::Direction::to_device);
  std::shared_ptr<const Mapping> held;
  const std::byte* from = pinned(context_, command_.source, command_.offset, command_.length, held);
  copy(range(space_, command_.target, command_.length, machine::kPageWrite), from);
  overwritten();
}

void Execution::copy_from_device() {
  copied(Work::Direction::from_device);
  std::shared_ptr<const Mapping> held;
  std::byte* to = pinned(context_, command_.target, command_.offset, command_.length, held);
  copy(to, range(space_, command_.source, command_.length, machine::kPageRead));
}

void Execution::copy_on_device() {
  copied(Work::Direction::on_device);
  std::byte* to = range(space_, command_.target, command_.length, machine::kPageWrite);
  const std::byte* from = range(space_, command_.source, command_.length, machine::kPageRead);
  if (to < from + command_.length && from < to + command_.length) {
    moved(device_.copier().move(to, from, command_.length, queue_.ending));
  } else {
    copy(to, from);
  }
  overwritten();
}

void Execution::fill() {
  copied(Work::Direction::on_device);
  std::byte* to = range(space_, command_.target, command_.length, machine::kPageWrite);
  moved(device_.copier().fill(to, uint8_t(command_.source), command_.length, queue_.ending));
  overwritten();
}

void Execution::wait() {
  const auto awaited = awaited_by(queue_);
  const auto [outcome, end] =
      awaited ? std::pair(awaited->outcome(command_.source), awaited->end_ticks(command_.source))
              : context_.retired(command_.target, command_.source);
  if (outcome == Timeline::Outcome::given_up) {
    throw CommandFault{EMU_ERROR_QUEUE_LOST, 0,
                       format("the command waits for command %llu of queue %llu, which will not be done: that queue "
                              "was lost, reset or destroyed",
                              static_cast<unsigned long long>(command_.source),
                              static_cast<unsigned long long>(command_.target)),
                       scope_of_queue()};
  }
  if (outcome == Timeline::Outcome::open) {
    throw illegal("the command waits for a value that its queue will never reach: the queue was destroyed, or is "
                  "the waiting queue itself");
  }
  ready_ = std::max(ready_, end);
}

void Execution::timestamp() {
  std::shared_ptr<const Mapping> held;
  std::byte* to = pinned(context_, command_.target, command_.offset, sizeof(emu_timestamp), held);
  if (command_.offset % alignof(emu_timestamp) != 0) throw illegal("a timestamp has to be 8-byte aligned");
  const emu_timestamp now{ready_, monotonic_ns()};
  std::memcpy(to, &now, sizeof now);
}

void Execution::signal_fence() {
  const auto hold = context_.fence(command_.target);
  if (!hold) throw illegal("the command signals a fence that its context does not hold");
  if (!hold->may_signal) throw illegal("the command signals a fence that its context may only wait for");
  hold->fence->signal(command_.source, ready_);
}

void Execution::wait_fence() {
  const auto hold = context_.fence(command_.target);
  if (!hold) throw illegal("the command waits for a fence that its context does not hold");
  const Fence& fence = *hold->fence;
  if (fence.value() < command_.source) {
    throw CommandFault{EMU_ERROR_FENCE_BROKEN, 0, fence.cause(), scope_of_queue()};
  }
  ready_ = std::max(ready_, fence.ticks(command_.source));
}

void Execution::copy_peer() {
  peer_ = context_.peer(command_.offset);
  if (!peer_) throw without_peer();
  const bool pulls = command_.grid[0] != 0;
  if (&peer_->device == &device_) {
    copied(Work::Direction::on_device);
  } else {
    link_ = link_to(peer_->device);
    copied(pulls ? Work::Direction::to_device : Work::Direction::from_device);
  }
  const std::shared_lock visit(peer_->visits);
  if (peer_->stopped || peer_->lost) throw without_peer();
  (void)peer_->mappings.load(std::memory_order_acquire); // as the engine does for the queue's own
  machine::AddressSpace theirs = peer_->space();
  theirs.correction = this;
  if (pulls) read_ = peer_.get();
  const machine::AddressSpace &source = pulls ? theirs : space_, &target = pulls ? space_ : theirs;
  std::byte* to = range(target, command_.target, command_.length, machine::kPageWrite);
  copy(to, range(source, command_.source, command_.length, machine::kPageRead));
  overwritten(pulls ? context_ : *peer_);
}

CommandFault Execution::without_peer() const {
  return {EMU_ERROR_QUEUE_LOST, 0, "the command copies to or from a context that was lost or destroyed",
          scope_of_queue()};
}

Link* Execution::link_to(const Device& other) {
  Link* const link = device_.board().links.between(device_.index, other.index);
  if (link == nullptr) throw illegal(format("no link joins the devices %u and %u", device_.index, other.index));
  if (device_.faults().armed()) {
    const Faults::Target target{context_.owner, queue_.id, EMU_ACTIVITY_COPY_PEER};
    const uint64_t fault = device_.faults().strike_by(EMU_FAULT_LINK_DOWN, target);
    if (fault != 0) {
      device_.link_set_up(*link, false, format("injected fault %llu", static_cast<unsigned long long>(fault)), 0);
    }
  }
  if (!link->up) {
    ++link->errors;
    throw CommandFault{EMU_ERROR_LINK_DOWN, 0,
                       format("link %u between the devices %u and %u is down", link->index(), device_.index,
                              other.index),
                       scope_of_queue()};
  }
  return link;
}

bool wait_is_over(Queue& queue) {
  const Command& command = queue.command();
  if (CommandKind(command.kind) == CommandKind::wait_fence) {
    const auto hold = queue.context->fence(command.target);
    return !hold || hold->fence->is_over(command.source);
  }
  if (CommandKind(command.kind) == CommandKind::copy_peer) {
    const auto peer = queue.context->peer(command.offset);
    return !peer || peer->awaiting_visits == 0;
  }
  if (CommandKind(command.kind) != CommandKind::wait) return true;
  const auto awaited = awaited_by(queue);
  return !awaited || awaited.get() == &queue || awaited->is_lost() || awaited->completed() >= command.source;
}

} // namespace emu
