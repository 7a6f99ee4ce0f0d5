#include "execute.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

#include "access.h"
#include "stepping.h"

namespace emu {
namespace {

/* Ends the command; what is known beyond it is filled in by `execute`. */
struct CommandFault {
  emu_status status;
  uint64_t address;
  std::string cause;
};

/* Whoever waits for the command is gone, or is told that the context or device is. */
CommandFault stopped() { return {EMU_ERROR_CONTEXT_LOST, 0, "the context was ended"}; }

CommandFault illegal(std::string cause) { return {EMU_ERROR_ILLEGAL_COMMAND, 0, std::move(cause)}; }

/* Host address of a device range, all of whose pages have the permission. */
std::byte* range(const machine::AddressSpace& space, uint64_t address, uint64_t bytes, uint8_t permission) {
  if (bytes == 0) return space.window;
  const std::optional<uint64_t> bad = machine::first_bad(space, address, bytes, permission);
  if (!bad) return space.window + (address - space.base);
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

/* One run of the command at a queue's head. */
class Execution {
 public:
  Execution(Device& device, Queue& queue)
      : device_(device), queue_(queue), context_(*queue.context), command_(queue.command()),
        ready_(queue.ready_ticks()) {}

  void run() {
    if (!queue_.malformed().empty()) throw illegal(std::string(queue_.malformed()));
    switch (CommandKind(command_.kind)) {
      case CommandKind::launch: return launch();
      case CommandKind::copy_to_device: return copy_to_device();
      case CommandKind::copy_from_device: return copy_from_device();
      case CommandKind::copy_on_device: return copy_on_device();
      case CommandKind::fill: return fill();
      case CommandKind::wait: return wait();
      case CommandKind::timestamp: return timestamp();
    }
    throw illegal(format("kind of a command: expected 1 to 7, got %u", command_.kind));
  }

  emu_activity activity{};
  Work work;
  uint64_t ready() const { return ready_; }

 private:
  void launch() {
    activity.kind = EMU_ACTIVITY_LAUNCH;
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
                                 &context_.stopped};
    machine::Fault fault;
    const bool ok = machine::run(*program, context_.space(), command_.grid, arguments, limits, device_.pool(),
                                 work.cost, fault);
    if (ok) return;
    std::string cause = fault.cause;
    if (fault.status == EMU_ERROR_LAUNCH_TIMEOUT) {
      cause += format(": %lld seconds", static_cast<long long>(device_.launch_limit().count()));
    }
    throw CommandFault{fault.status, fault.address, std::move(cause)};
  }

  /* The erratum argument-tail: what is beyond the last whole granule is not fetched. */
  static std::span<const std::byte> without_tail(std::span<const std::byte> arguments,
                                                 std::array<std::byte, kMaxArguments>& fetched) {
    const size_t whole = arguments.size() / constants::kArgumentGranule * constants::kArgumentGranule;
    if (whole == arguments.size()) return arguments;
    std::copy_n(arguments.begin(), whole, fetched.begin());
    std::fill(fetched.begin() + ptrdiff_t(whole), fetched.begin() + ptrdiff_t(arguments.size()), std::byte{0});
    return std::span<const std::byte>(fetched).first(arguments.size());
  }

  void copied(emu_activity_kind kind, Work::Direction direction) {
    activity.kind = kind;
    activity.bytes = command_.length;
    work.direction = direction;
    work.copy_ticks = copy_ticks(command_.length);
  }

  /* Of the bytes that were to be moved; fewer when the context was ended meanwhile. */
  void moved(uint64_t bytes) {
    work.bytes = bytes;
    if (bytes == command_.length) return;
    work.copy_ticks = copy_ticks(bytes);
    throw stopped();
  }

  void copy(std::byte* to, const std::byte* from) {
    moved(device_.copier().copy(to, from, command_.length, context_.stopped));
  }

  void copy_to_device() {
    copied(EMU_ACTIVITY_COPY_TO_DEVICE, Work::Direction::to_device);
    std::shared_ptr<const Mapping> held;
    const std::byte* from = pinned(context_, command_.source, command_.offset, command_.length, held);
    copy(range(context_.space(), command_.target, command_.length, machine::kPageWrite), from);
  }

  void copy_from_device() {
    copied(EMU_ACTIVITY_COPY_FROM_DEVICE, Work::Direction::from_device);
    std::shared_ptr<const Mapping> held;
    std::byte* to = pinned(context_, command_.target, command_.offset, command_.length, held);
    copy(to, range(context_.space(), command_.source, command_.length, machine::kPageRead));
  }

  void copy_on_device() {
    copied(EMU_ACTIVITY_COPY_ON_DEVICE, Work::Direction::on_device);
    std::byte* to = range(context_.space(), command_.target, command_.length, machine::kPageWrite);
    const std::byte* from = range(context_.space(), command_.source, command_.length, machine::kPageRead);
    if (to < from + command_.length && from < to + command_.length) {
      std::memmove(to, from, command_.length);
      moved(command_.length);
    } else {
      copy(to, from);
    }
  }

  void fill() {
    copied(EMU_ACTIVITY_FILL, Work::Direction::on_device);
    std::byte* to = range(context_.space(), command_.target, command_.length, machine::kPageWrite);
    moved(device_.copier().fill(to, uint8_t(command_.source), command_.length, context_.stopped));
  }

  void wait() {
    activity.kind = EMU_ACTIVITY_WAIT;
    const auto awaited = queue_.awaited.lock();
    const uint64_t reached = awaited ? awaited->completed() : context_.retired(command_.target);
    if (reached < command_.source) {
      throw illegal("the command waits for a value that its queue will never reach: the queue was destroyed, or is "
                    "the waiting queue itself");
    }
    if (awaited) ready_ = std::max(ready_, awaited->end_ticks(command_.source));
  }

  void timestamp() {
    activity.kind = EMU_ACTIVITY_TIMESTAMP;
    std::shared_ptr<const Mapping> held;
    std::byte* to = pinned(context_, command_.target, command_.offset, sizeof(emu_timestamp), held);
    if (command_.offset % alignof(emu_timestamp) != 0) throw illegal("a timestamp has to be 8-byte aligned");
    const emu_timestamp now{ready_, monotonic_ns()};
    std::memcpy(to, &now, sizeof now);
  }

  Device& device_;
  Queue& queue_;
  Context& context_;
  const Command& command_;
  uint64_t ready_;
};

const char* mend_of(emu_status status) {
  switch (status) {
    case EMU_ERROR_PAGE_FAULT: return "check the addresses and sizes that the command was given";
    case EMU_ERROR_OUT_OF_BOUNDS: return "check the indices that the program was given";
    case EMU_ERROR_LAUNCH_TIMEOUT:
    case EMU_ERROR_BUDGET: return "split the work over several launches";
    default: return "destroy the context and make a new one";
  }
}

/* Without an allocation: it may be for want of memory. */
emu_error error_of(emu_status status, uint64_t address, std::string_view cause, const Queue& queue,
                   const emu_activity& activity) {
  emu_error error{};
  error.size = sizeof error;
  error.status = status;
  error.scope = EMU_SCOPE_CONTEXT;
  error.queue = queue.id;
  error.command = queue.sequence();
  error.address = address;
  std::memcpy(error.program, activity.program, sizeof error.program);
  copy_text(error.cause, cause);
  copy_text(error.mend, mend_of(status));
  return error;
}

} // namespace

bool wait_is_over(Queue& queue) {
  const Command& command = queue.command();
  if (CommandKind(command.kind) != CommandKind::wait) return true;
  auto awaited = queue.awaited.lock();
  if (!awaited) queue.awaited = awaited = queue.context->queue(command.target);
  return !awaited || awaited.get() == &queue || awaited->destroyed || awaited->completed() >= command.source;
}

void execute(Device& device, Queue& queue) {
  Context& context = *queue.context;
  Execution execution(device, queue);
  emu_activity& activity = execution.activity;
  activity.start_ns = monotonic_ns();
  execution.work.found_ticks = queue.found_ticks.value_or(0); // a malformed one, which takes no time, has none
  if (const uint32_t submitted = queue.command().submitted; submitted != 0) {
    execution.work.delay_ns = since(submitted, activity.start_ns);
  }
  emu_error error{};
  try {
    execution.run();
  } catch (const CommandFault& fault) {
    error = error_of(fault.status, fault.address, fault.cause, queue, activity);
  } catch (const std::bad_alloc&) {
    error = error_of(EMU_ERROR_HOST, 0, "no memory on the host for the command", queue, activity);
  }
  const bool ended = error.status == EMU_ERROR_CONTEXT_LOST;
  execution.work.completed = !ended;
  const Span span = device.advance(queue.kind, execution.ready(), execution.work);
  if (ended) return;
  if (context.recording) {
    activity.size = sizeof activity;
    activity.queue = queue.id;
    activity.status = error.status;
    activity.command = queue.sequence();
    activity.correlation = queue.command().correlation;
    activity.start_ticks = span.start;
    activity.end_ticks = span.end;
    activity.end_ns = monotonic_ns();
    if (error.status != EMU_OK) activity.kind = EMU_ACTIVITY_FAULT;
    context.record(activity);
  }
  if (error.status == EMU_OK) {
    queue.complete(span.end);
  } else {
    device.count_fault();
    emu_event event = new_event(EMU_EVENT_FAULT, emu_status(error.status), emu_scope(error.scope));
    event.process = context.owner;
    event.context = context.id;
    event.queue = error.queue;
    event.command = error.command;
    device.note(event, error.cause);
    context.fail(error);
  }
}

} // namespace emu
