#include "execute.h"

#include <cstring>
#include <new>
#include <string_view>

#include "commands.h"

namespace emu {
namespace {

const char* mend_of(emu_status status) {
  switch (status) {
    case EMU_ERROR_PAGE_FAULT: return "check the addresses and sizes that the command was given";
    case EMU_ERROR_OUT_OF_BOUNDS: return "check the indices that the program was given";
    case EMU_ERROR_FENCE_BROKEN: return "reset the queue, and make a new fence with processes that are there";
    case EMU_ERROR_LINK_DOWN: return about(EMU_FAULT_LINK_DOWN).recovery;
    case EMU_ERROR_BUDGET: return "split the work over several launches";
    case EMU_ERROR_LAUNCH_TIMEOUT: return about(EMU_FAULT_HANG).recovery;
    case EMU_ERROR_MEMORY_ERROR: return about(EMU_FAULT_BIT_UNCORRECTED).recovery;
    case EMU_ERROR_THERMAL_TRIP: return about(EMU_FAULT_THERMAL_TRIP).recovery;
    case EMU_ERROR_FIRMWARE_CRASH: return about(EMU_FAULT_FIRMWARE_CRASH).recovery;
    case EMU_ERROR_QUEUE_LOST: return "reset the queue, or destroy it, and the one that it waits for";
    default: return "destroy the context and make a new one";
  }
}

/* Without an allocation: it may be for want of memory. */
emu_error error_of(emu_status status, emu_scope scope, uint64_t address, std::string_view cause, const Queue& queue,
                   const emu_activity& activity) {
  emu_error error{};
  error.size = sizeof error;
  error.status = status;
  error.scope = scope;
  error.queue = queue.id;
  error.command = queue.sequence();
  error.address = address;
  std::memcpy(error.program, activity.program, sizeof error.program);
  copy_text(error.cause, cause);
  copy_text(error.mend, mend_of(status));
  return error;
}

/* What has to be given up for an error. */
void lose(Device& device, Queue& queue, const emu_error& error) {
  switch (emu_scope(error.scope)) {
    case EMU_SCOPE_COMMAND:
    case EMU_SCOPE_QUEUE:
      queue.lose(error);
      return queue.context->break_signals(queue);
    case EMU_SCOPE_CONTEXT: return queue.context->fail(error);
    case EMU_SCOPE_DEVICE:
    case EMU_SCOPE_HOST: break;
  }
  device.fail(*queue.context, error);
}

} // namespace

uint64_t execute(Device& device, Queue& queue) {
  Context& context = *queue.context;
  Execution execution(device, queue);
  emu_activity& activity = execution.activity;
  activity.start_ns = monotonic_ns();
  execution.work.found_ticks = queue.found_ticks.value_or(0); // a malformed one, which takes no time, has none
  if (const uint32_t submitted = queue.command().submitted; submitted != 0) {
    execution.work.delay_ns = since(submitted, activity.start_ns);
  }
  emu_error error{};
  bool cancelled = queue.malformed().empty() && !queue.claim();
  try {
    if (cancelled) execution.pass_over();
    else execution.run();
  } catch (const CommandFault& fault) {
    error = error_of(fault.status, fault.scope, fault.address, fault.cause, queue, activity);
  } catch (const std::bad_alloc&) {
    // One that is being ended ends, memory to say so or not.
    error = error_of(queue.ending ? EMU_ERROR_CONTEXT_LOST : EMU_ERROR_HOST, EMU_SCOPE_CONTEXT, 0,
                     "no memory on the host for the command", queue, activity);
  }
  execution.slow_down();
  execution.report_bit_errors(error);
  const bool early = error.status == EMU_ERROR_CONTEXT_LOST;
  const bool ended = early && (context.stopped || queue.stopped);
  if (early && !ended) {
    cancelled = true;
    error.status = EMU_OK;
  }
  execution.work.completed = !ended;
  const Span span = execution.advance();
  const uint64_t ticks = span.end - span.start;
  if (ended) return ticks;
  if (context.recording) {
    activity.size = sizeof activity;
    activity.queue = queue.id;
    activity.status = error.status == EMU_OK && cancelled ? int32_t(EMU_ERROR_CANCELLED) : error.status;
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
    device.note(event, error.cause, context.user);
    lose(device, queue, error);
  }
  return ticks;
}

} // namespace emu
