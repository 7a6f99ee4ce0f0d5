#include "device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "emu_constants.h"
#include "log.h"
#include "ring.h"

namespace emu {
namespace {

std::string in_mib(uint64_t bytes) { return format("%.1f MiB", double(bytes) / (1 << 20)); }

} // namespace

Device::Device(const Options& options, uint32_t index_, std::unique_ptr<Firmware> firmware, Board& board)
    : index(index_), node_(options.node(index_)), tick_budget_(options.tick_budget),
      launch_limit_(options.launch_milliseconds), private_(options.is_private()),
      stepping_(*options.stepping), firmware_(std::move(firmware)), board_(board), memory_(options.memory_bytes),
      pool_(options.threads), copier_(options.threads), power_(options.power_mode, options.ambient_celsius),
      compute_(*this, EMU_QUEUE_COMPUTE), copy_(*this, EMU_QUEUE_COPY) {
  for (const Firmware::Happened& happened : firmware_->boot()) {
    note_firmware(happened);
    if (happened.status == EMU_OK || log_file == stderr) continue;
    std::fprintf(stderr, "emud: device %u: %s\n", index, happened.text.c_str()); // whoever starts emud is there still
  }
}

Device::~Device() = default;

emu_device_info Device::info() const {
  emu_device_info info{};
  info.size = sizeof info;
  info.index = index;
  copy_text(info.name, "Emulated accelerator");
  copy_text(info.uuid, format("454d5500-0000-4000-8000-%012x", index));
  copy_text(info.stepping, stepping_.name);
  copy_text(info.firmware, firmware_->version());
  copy_text(info.driver, EMU_VERSION);
  info.interface_version = EMU_DRIVER_INTERFACE;
  info.cores = constants::kCores;
  info.max_lanes = 4096;
  info.host_threads = pool_.threads();
  info.memory_bytes = memory_.total();
  info.page_bytes = constants::kPageBytes;
  info.clock_hertz = constants::kClockHertz;
  info.is_private = private_ ? 1 : 0;
  info.emud_pid = getpid();
  copy_text(info.node, node_);
  return info;
}

emu_telemetry Device::telemetry() const {
  emu_telemetry out;
  {
    const std::lock_guard lock(clock_mutex_);
    out = counters_;
    const uint64_t compute = engine_ticks_[EMU_QUEUE_COMPUTE];
    out.device_ticks = std::max(compute, engine_ticks_[EMU_QUEUE_COPY]);
    const uint64_t behind = out.device_ticks - compute;
    out.spent_idle_ticks += behind;
    Power now = power_; // and where the device clock does
    now.pass(behind, false);
    out.power_mode = now.mode();
    out.clock_hertz = now.clock().hertz();
    out.power_watts = now.watts();
    out.temperature_celsius = now.celsius();
    out.throttle = now.throttle();
    out.throttled_ticks += now.throttled_ticks();
    out.clock_changes = now.clock_changes();
  }
  out.size = sizeof out;
  out.emud_start_ns = board_.started_ns;
  if (out.throttle == EMU_THROTTLE_NONE && faults_.slows()) out.throttle = EMU_THROTTLE_FAULT;
  out.faults = fault_count_;
  {
    const std::lock_guard lock(contexts_mutex_);
    out.contexts = uint32_t(contexts_.size());
    for (const auto& [id, context] : contexts_) out.queues += uint32_t(context->queue_count());
  }
  const PhysicalMemory::Use memory = memory_.use(); // after the contexts: one that is not counted holds nothing
  out.memory_used_bytes = memory.used_bytes;
  out.memory_peak_bytes = memory.peak_bytes;
  out.memory_largest_free_bytes = memory.largest_free_bytes;
  out.ecc_corrected = memory.corrected_errors;
  out.ecc_uncorrected = memory.uncorrected_errors;
  const double held = double(memory.used_bytes) / double(memory_.total());
  out.memory_pressure = held > constants::kMemoryCritical ? EMU_MEMORY_PRESSURE_CRITICAL
                        : held > constants::kMemoryHigh   ? EMU_MEMORY_PRESSURE_HIGH
                                                          : EMU_MEMORY_PRESSURE_NONE;
  return out;
}

emu_power_mode Device::power_mode(uint64_t index) const {
  if (index >= std::size(constants::kPowerModes)) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("power mode: expected 0 to %zu, got %llu", std::size(constants::kPowerModes) - 1,
                         static_cast<unsigned long long>(index)));
  }
  const constants::PowerMode& mode = constants::kPowerModes[index];
  emu_power_mode out{};
  out.size = sizeof out;
  out.index = uint32_t(index);
  copy_text(out.name, mode.name);
  out.clock_hertz = constants::kClockHertz / 100 * mode.clock_percent;
  out.idle_watts = mode.idle_watts;
  out.busy_watts = mode.busy_watts;
  return out;
}

void Device::set_power_mode(uint64_t index) {
  const emu_power_mode mode = power_mode(index);
  const std::lock_guard lock(clock_mutex_);
  power_.set_mode(mode.index);
}

uint32_t Device::power_mode() const {
  const std::lock_guard lock(clock_mutex_);
  return power_.mode();
}

/* Each end of it is told, whichever device was asked; emud outlives both. */
void Device::link_set_up(Link& link, bool up, const std::string& by, pid_t process) {
  if (link.up.exchange(up) == up) return;
  const emu_link_info info = link.info();
  emu_event event = new_event(EMU_EVENT_LINK, up ? EMU_OK : EMU_ERROR_LINK_DOWN, EMU_SCOPE_DEVICE);
  event.process = process;
  char text[sizeof event.text];
  std::snprintf(text, sizeof text, "link %u between the devices %u and %u was taken %s by %s", info.index,
                info.device[0], info.device[1], up ? "up" : "down", by.c_str());
  for (const uint32_t end : info.device) board_.devices[end]->note(event, text);
}

uint64_t Device::engine_ticks(emu_queue_kind kind) const {
  const std::lock_guard lock(clock_mutex_);
  return engine_ticks_[kind];
}

Span Device::advance(emu_queue_kind kind, uint64_t ready, const Work& work) {
  const std::lock_guard lock(clock_mutex_);
  return place(kind, ready, work);
}

Span Device::advance_with(Device& other, Link* link, emu_queue_kind kind, uint64_t ready, const Work& work) {
  if (link == nullptr) return advance(kind, ready, work);
  const std::scoped_lock lock(clock_mutex_, other.clock_mutex_, link->mutex);
  const bool sends = work.direction == Work::Direction::from_device;
  Link::Way& way = link->way(sends ? index : other.index);
  uint64_t& there = other.engine_ticks_[EMU_QUEUE_COPY];
  const Span span = place(kind, std::max({ready, there, way.free_at}), work);
  if (span.start == span.end) return span;
  there = way.free_at = span.end;
  ++way.copies;
  way.bytes += work.bytes;
  way.busy_ticks += work.copy_ticks;
  Work theirs;
  theirs.direction = sends ? Work::Direction::to_device : Work::Direction::from_device;
  theirs.bytes = work.bytes;
  theirs.copy_ticks = work.copy_ticks;
  other.count(EMU_QUEUE_COPY, theirs, other.power_.clock());
  return span;
}

/* Under the lock of the clock. */
Span Device::place(emu_queue_kind kind, uint64_t ready, const Work& work) {
  counters_.commands += work.completed ? 1 : 0;
  counters_.launches += work.launch ? 1 : 0;
  // What takes no time (a wait, a timestamp) does not hold the engine until it is ready.
  if (work.cost.ticks + work.copy_ticks == 0) return {ready, ready};
  uint64_t& now = engine_ticks_[kind];
  // An engine stands still only for a fence or a peer: all else that a command follows is on its own engine, behind it.
  const uint64_t waited = ready > now ? ready - now : 0;
  const uint64_t could = std::max(ready, work.found_ticks);
  const uint64_t delay = now > could ? now - could : 0;
  const uint64_t start = now + waited;
  const bool computes = kind == EMU_QUEUE_COMPUTE;
  const uint32_t next_mode = power_.exchange_mode(work.power_mode);
  if (computes) power_.pass(waited, false);
  const CoreClock clock = power_.clock();
  now = start + clock.ticks(work.cost.ticks) + work.copy_ticks;
  if (computes && work.factor > 1 && power_.throttle() == EMU_THROTTLE_NONE) counters_.throttled_ticks += now - start;
  if (computes) power_.pass(now - start, true);
  if (computes) counters_.spent_waiting_ticks += waited;
  ++counters_.queued_commands;
  counters_.queue_delay_ticks += delay;
  counters_.queue_delay_most_ticks = std::max(counters_.queue_delay_most_ticks, delay);
  counters_.queue_delay_ns += work.delay_ns;
  counters_.queue_delay_most_ns = std::max(counters_.queue_delay_most_ns, work.delay_ns);
  count(kind, work, clock);
  power_.exchange_mode(next_mode);
  return {start, now};
}

void Device::count(emu_queue_kind kind, const Work& work, const CoreClock& clock) {
  const uint64_t launch_ticks = clock.ticks(work.cost.ticks);
  counters_.matrix_ticks += clock.whole_ticks(work.cost.total.matrix);
  counters_.vector_ticks += clock.whole_ticks(work.cost.total.vector);
  counters_.memory_ticks += clock.whole_ticks(work.cost.total.memory);
  counters_.program_bytes += work.cost.memory_bytes;
  counters_.copy_ticks += work.copy_ticks;
  switch (work.direction) {
    case Work::Direction::to_device:
      counters_.bytes_to_device += work.bytes;
      counters_.to_device_ticks += work.copy_ticks;
      break;
    case Work::Direction::from_device:
      counters_.bytes_from_device += work.bytes;
      counters_.from_device_ticks += work.copy_ticks;
      break;
    case Work::Direction::on_device:
      counters_.bytes_on_device += work.bytes;
      counters_.on_device_ticks += work.copy_ticks;
      break;
  }
  if (kind == EMU_QUEUE_COPY) {
    counters_.copy_engine_ticks += launch_ticks + work.copy_ticks;
    return;
  }
  const uint64_t matrix = clock.whole_ticks(work.cost.busiest.matrix);
  const uint64_t vector = clock.whole_ticks(work.cost.busiest.vector);
  const uint64_t memory = clock.whole_ticks(work.cost.busiest.memory);
  counters_.busy_ticks += launch_ticks + work.copy_ticks;
  counters_.spent_matrix_ticks += matrix;
  counters_.spent_vector_ticks += vector;
  counters_.spent_memory_ticks += memory;
  counters_.spent_control_ticks += launch_ticks - matrix - vector - memory;
  counters_.spent_copy_ticks += work.copy_ticks;
}

emu_event Device::note(emu_event event, std::string_view text, std::optional<uid_t> user) noexcept {
  {
    const std::lock_guard lock(clock_mutex_);
    event.ticks = std::max(engine_ticks_[0], engine_ticks_[1]);
  }
  event.nanoseconds = monotonic_ns();
  copy_text(event.text, text);
  event.sequence = events_.add(event, user);
  return event;
}

/* Into the log, and on the timeline of every context that records its commands. */
void Device::note_firmware(const Firmware::Happened& happened) {
  log("device %u: %s", index, happened.text.c_str());
  const emu_event event = note(new_event(happened.kind, happened.status, EMU_SCOPE_DEVICE), happened.text);
  emu_activity activity{};
  activity.size = sizeof activity;
  activity.kind = EMU_ACTIVITY_FIRMWARE;
  activity.queue = UINT32_MAX;
  activity.status = happened.status;
  activity.command = event.sequence;
  activity.start_ticks = activity.end_ticks = event.ticks;
  activity.start_ns = activity.end_ns = event.nanoseconds;
  copy_text(activity.program, happened.text);
  const std::lock_guard lock(contexts_mutex_);
  for (const auto& [id, context] : contexts_) {
    if (context->recording) context->record(activity);
  }
}

template <typename Operation>
void Device::firmware_operation(const Operation& operation) {
  try {
    operation();
  } catch (const Refusal& refusal) {
    note_firmware({EMU_EVENT_FIRMWARE_REFUSED, refusal.status, "refused: " + refusal.cause});
    throw;
  }
}

void Device::firmware_write(uint64_t total, uint64_t offset, std::span<const std::byte> bytes) {
  firmware_operation([&] {
    if (const auto written = firmware_->write(total, offset, bytes)) note_firmware(*written);
  });
}

void Device::firmware_activate() {
  firmware_operation([&] { note_firmware(firmware_->activate()); });
}

void Device::firmware_rollback() {
  firmware_operation([&] { note_firmware(firmware_->rollback()); });
}

void Device::reset(pid_t by) {
  const std::lock_guard one(reset_mutex_);
  emu_error error{};
  error.size = sizeof error;
  error.status = EMU_ERROR_STALE_HANDLE;
  error.scope = EMU_SCOPE_DEVICE;
  error.queue = UINT32_MAX;
  copy_text(error.cause, format("the device was reset by process %d", by));
  copy_text(error.mend, "destroy the context and make a new one");
  emu_event event = new_event(EMU_EVENT_RESET, EMU_OK, EMU_SCOPE_DEVICE);
  event.process = by;
  cooling_ticks(); // or it is refused
  const std::vector<Firmware::Happened> boot = firmware_->boot(); // where that throws, nothing has changed
  {
    const std::lock_guard lock(contexts_mutex_);
    const uint64_t cooling = cooling_ticks(); // again: it may have tripped meanwhile
    note(event, error.cause);
    for (const auto& [id, context] : contexts_) {
      context->fail(error);
      context->stop();
    }
    failure_ = emu_error{};
    cool_down(cooling);
  }
  for (const Firmware::Happened& happened : boot) note_firmware(happened);
}

uint64_t Device::fault_inject(emu_fault fault, pid_t by) {
  fault = Faults::complete(fault);
  uint64_t number = 0;
  if (Faults::is_bit_error(fault)) {
    if (fault.process == 0) fault.process = by;
    const std::lock_guard lock(contexts_mutex_);
    const auto found = std::find_if(contexts_.begin(), contexts_.end(), [&](const auto& entry) {
      return entry.second->owner == fault.process && entry.second->holds(fault.address);
    });
    if (found != contexts_.end()) {
      number = faults_.inject(fault, found->first);
      if (!found->second->damage(fault.address)) { // it was freed meanwhile
        faults_.forget(found->first, fault.address, 1);
        number = 0;
      }
    }
    if (number == 0) {
      throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                    format("fault: address: expected one of device memory that process %d holds, got 0x%llx",
                           fault.process, static_cast<unsigned long long>(fault.address)));
    }
  } else {
    number = faults_.inject(fault, 0);
  }
  emu_event event = new_event(EMU_EVENT_INJECTION, EMU_OK, EMU_SCOPE_COMMAND);
  event.process = by;
  char text[sizeof event.text]; // needs no memory: the fault is there
  std::snprintf(text, sizeof text, "fault %llu was injected: %s", static_cast<unsigned long long>(number),
                about(emu_fault_kind(fault.kind)).name);
  note(event, text, geteuid());
  return number;
}

void Device::fault_clear(uint64_t number, pid_t by) {
  faults_.clear(number);
  emu_event event = new_event(EMU_EVENT_INJECTION, EMU_OK, EMU_SCOPE_COMMAND);
  event.process = by;
  char text[sizeof event.text] = "all faults were cleared";
  if (number != 0) std::snprintf(text, sizeof text, "fault %llu was cleared", static_cast<unsigned long long>(number));
  note(event, text, geteuid());
}

void Device::fail(Context& by, const emu_error& error) noexcept {
  const std::lock_guard lock(contexts_mutex_);
  if (by.fault().status == EMU_ERROR_STALE_HANDLE) return;
  if (error.status == EMU_ERROR_FIRMWARE_CRASH) firmware_->crash();
  if (error.status == EMU_ERROR_THERMAL_TRIP) {
    const std::lock_guard clock(clock_mutex_);
    power_.trip();
  }
  failure_ = error;
  failure_.queue = UINT32_MAX; // the command is of that context alone
  failure_.command = 0;
  failure_.program[0] = '\0';
  by.fail(error);
  for (const auto& [id, context] : contexts_) {
    context->fail(failure_);
    context->stop();
  }
}

/* The rule of spec/machine.toml: a device that tripped starts when it is cool, on the device clock. */
uint64_t Device::cooling_ticks() const {
  const std::lock_guard lock(clock_mutex_);
  if (power_.throttle() != EMU_THROTTLE_TRIP) return 0;
  if (const auto ticks = power_.ticks_to_cool()) return *ticks;
  throw Refusal(EMU_ERROR_THERMAL_TRIP, EMU_SCOPE_DEVICE,
                format("the device tripped and cannot cool down: expected to reach %.0f degrees, got air in which it "
                       "stays above",
                       constants::kThrottleStopCelsius),
                "let emud start with cooler air: --ambient");
}

/* Idle time of both engines. */
void Device::cool_down(uint64_t ticks) {
  if (ticks == 0) return;
  const std::lock_guard lock(clock_mutex_);
  uint64_t& compute = engine_ticks_[EMU_QUEUE_COMPUTE];
  const uint64_t cool = std::max(compute, engine_ticks_[EMU_QUEUE_COPY]) + ticks;
  counters_.spent_idle_ticks += cool - compute;
  power_.pass(cool - compute, false);
  power_.restart();
  compute = engine_ticks_[EMU_QUEUE_COPY] = cool;
}

Refusal Device::out_of_memory(uint64_t bytes) const {
  const std::lock_guard lock(contexts_mutex_);
  std::map<pid_t, uint64_t> held;
  for (const auto& [id, context] : contexts_) held[context->owner] += context->held_bytes;
  std::vector<std::pair<uint64_t, pid_t>> holders;
  for (const auto& [pid, amount] : held) holders.emplace_back(amount, pid);
  std::sort(holders.rbegin(), holders.rend());
  std::string cause = "device memory is short: " + in_mib(bytes) + " asked, " + in_mib(memory_.free_bytes()) +
                      " free of " + in_mib(memory_.total()) + "; held:";
  for (size_t i = 0; i < holders.size() && i < 4; ++i) {
    cause += format("%s %s by process %d", i == 0 ? "" : ",", in_mib(holders[i].first).c_str(), holders[i].second);
  }
  if (holders.size() > 4) cause += format(", and %zu more processes", holders.size() - 4);
  return Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND, cause, "free memory, or end a process that holds it");
}

std::shared_ptr<Context> Device::context_create(const Client& client, uint64_t number,
                                                std::shared_ptr<Quotas> quotas) {
  auto account = accounts_.of(client.process, [this](const Account& one) {
    return compute_.turns().owes(one) || copy_.turns().owes(one);
  });
  const std::lock_guard lock(contexts_mutex_);
  if (failure_.status != EMU_OK) {
    throw Refusal(emu_status(failure_.status), EMU_SCOPE_DEVICE, failure_.cause, failure_.mend);
  }
  auto context = std::make_shared<Context>(*this, next_context_id_, client, number, std::move(quotas),
                                           std::move(account));
  contexts_.emplace(next_context_id_++, context);
  return context;
}

void Device::context_destroy(const std::shared_ptr<Context>& context) noexcept {
  context->end();
  const std::lock_guard lock(contexts_mutex_);
  contexts_.erase(context->id);
}

void Device::attach(const std::shared_ptr<Queue>& queue) { engine(queue->kind).attach(queue); }
void Device::detach(const std::shared_ptr<Queue>& queue) noexcept { engine(queue->kind).detach(queue); }

void Device::replace(const std::shared_ptr<Queue>& before, const std::shared_ptr<Queue>& after) noexcept {
  engine(before->kind).replace(before, after);
}

void Device::ring() {
  compute_.ring();
  copy_.ring();
}

void Device::ring_if_blocked() {
  compute_.ring_if_blocked();
  copy_.ring_if_blocked();
}

void Device::progress(emu_queue_kind kind) {
  engine(kind == EMU_QUEUE_COPY ? EMU_QUEUE_COMPUTE : EMU_QUEUE_COPY).ring_if_blocked();
}

void Device::lose() {
  {
    const std::lock_guard lock(contexts_mutex_);
    for (const auto& [id, context] : contexts_) {
      context->device_lost();
      context->stop();
    }
  }
  compute_.stop();
  copy_.stop();
}

} // namespace emu
