#include "faults.h"

#include <algorithm>

#include "refusal.h"

namespace emu {
namespace {

constexpr uint32_t kFactorLeast = 2, kFactorMost = 1000;

Refusal bad(const std::string& cause) {
  return Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, "fault: " + cause);
}

bool is_command(uint32_t kind) {
  return (kind >= EMU_ACTIVITY_LAUNCH && kind <= EMU_ACTIVITY_WAIT) ||
         (kind >= EMU_ACTIVITY_TIMESTAMP && kind <= EMU_ACTIVITY_COPY_PEER);
}

/* Not at the start of a command. */
bool strikes_elsewhere(const emu_fault& fault) {
  return Faults::is_bit_error(fault) || fault.kind == EMU_FAULT_LOST_DOORBELL || fault.kind == EMU_FAULT_LINK_DOWN;
}

} // namespace

const constants::Fault& about(emu_fault_kind kind) { return constants::kFaults[kind - 1]; }

emu_fault Faults::complete(emu_fault fault) {
  const unsigned kinds = std::size(constants::kFaults);
  if (fault.size != sizeof fault) throw bad(format("size: expected %zu, got %u", sizeof fault, fault.size));
  if (fault.kind == 0 || fault.kind > kinds) throw bad(format("kind: expected 1 to %u, got %u", kinds, fault.kind));
  const std::string name = about(emu_fault_kind(fault.kind)).name;
  if (fault.command != 0 && !is_command(fault.command)) {
    throw bad(format("kind of command: expected one of emu_activity_kind that is a command, got %u", fault.command));
  }
  const bool slow = fault.kind == EMU_FAULT_SLOW;
  if (slow ? fault.factor < kFactorLeast || fault.factor > kFactorMost : fault.factor != 0) {
    throw bad(format("factor of %s: expected %s, got %u", name.c_str(), slow ? "2 to 1000" : "0", fault.factor));
  }
  const bool bit = is_bit_error(fault);
  if (bit && (fault.queue != UINT32_MAX || fault.command != 0 || fault.skip != 0 || fault.times > 1)) {
    throw bad(name + " strikes who reads its page next: expected no queue, no kind of command, nothing skipped, once");
  }
  if (!bit && fault.address != 0) throw bad("address: expected 0 for " + name + ", which strikes commands");
  if (fault.kind == EMU_FAULT_LOST_DOORBELL && fault.command != 0) {
    throw bad(name + " is lost before the command is seen: expected no kind of command");
  }
  if (fault.kind == EMU_FAULT_HANG || fault.kind == EMU_FAULT_LINK_DOWN) {
    const bool hang = fault.kind == EMU_FAULT_HANG;
    const uint32_t only = hang ? EMU_ACTIVITY_LAUNCH : EMU_ACTIVITY_COPY_PEER;
    if (fault.command != 0 && fault.command != only) {
      throw bad(name + (hang ? ": expected launches as commands" : ": expected peer copies as commands"));
    }
    fault.command = only;
  }
  if (bit) fault.times = 1;
  fault.struck = 0;
  return fault;
}

bool Faults::Entry::matches(const Target& target) const {
  return !is_spent() && (fault.process == 0 || fault.process == target.process) &&
         (fault.queue == UINT32_MAX || fault.queue == target.queue) &&
         (fault.command == 0 || fault.command == target.command);
}

bool Faults::Entry::is_due() {
  if (spared == fault.skip) return true;
  ++spared;
  return false;
}

void Faults::look() noexcept {
  armed_.store(std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.can_strike(); }),
               std::memory_order_release);
}

bool Faults::slows() const noexcept {
  if (!armed()) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.fault.kind == EMU_FAULT_SLOW && !entry.is_spent() && entry.spared == entry.fault.skip;
  });
}

uint64_t Faults::inject(const emu_fault& fault, uint64_t context) {
  Entry entry{fault, context};
  const std::lock_guard lock(mutex_);
  if (entries_.size() == kMost) {
    const auto spent =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& one) { return !one.can_strike(); });
    if (spent == entries_.end()) {
      throw Refusal(EMU_ERROR_OUT_OF_MEMORY, EMU_SCOPE_COMMAND,
                    format("injected faults: expected at most %zu, got one more", kMost), "clear some first");
    }
    entries_.erase(spent);
  }
  entries_.reserve(kMost); // once
  entry.fault.number = ++last_;
  entries_.push_back(entry);
  look();
  return entry.fault.number;
}

void Faults::clear(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const size_t cleared =
      std::erase_if(entries_, [=](const Entry& entry) { return number == 0 || entry.fault.number == number; });
  if (cleared == 0 && number != 0) {
    throw bad(format("number: expected one that is listed, got %llu", static_cast<unsigned long long>(number)));
  }
  look();
}

size_t Faults::list(emu_fault* out, size_t capacity) const noexcept {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(capacity, entries_.size());
  for (size_t i = 0; i < count; ++i) out[i] = entries_[i].fault;
  return count;
}

Faults::Strike Faults::strike(const Target& command) noexcept {
  const std::lock_guard lock(mutex_);
  Strike out;
  for (Entry& entry : entries_) {
    if (strikes_elsewhere(entry.fault) || !entry.matches(command)) continue;
    if (!entry.is_due()) continue;
    if (entry.fault.kind == EMU_FAULT_SLOW) {
      out.factor = std::min(out.factor * entry.fault.factor, kMostSlow);
      if (++entry.fault.struck == 1) out.slowed_by = entry.fault.number;
    } else if (out.kind == 0) { // another that is due strikes the next one
      out.kind = entry.fault.kind;
      out.number = entry.fault.number;
      ++entry.fault.struck;
    }
  }
  look();
  return out;
}

uint64_t Faults::strike_by(emu_fault_kind kind, const Target& target) noexcept {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.fault.kind != uint32_t(kind) || !entry.matches(target) || !entry.is_due()) continue;
    ++entry.fault.struck;
    look();
    return entry.fault.number;
  }
  return 0;
}

Faults::BitErrors Faults::read(uint64_t context, uint64_t address, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  BitErrors out;
  for (Entry& entry : entries_) {
    if (entry.fault.kind != EMU_FAULT_BIT_UNCORRECTED || !entry.lies_in(context, address, bytes)) continue;
    entry.fault.struck = 1;
    if (!out.uncorrected || entry.fault.address < out.address) out.address = entry.fault.address;
    out.uncorrected = true;
  }
  if (!out.uncorrected) {
    for (Entry& entry : entries_) {
      if (!entry.lies_in(context, address, bytes) || entry.is_spent()) continue;
      entry.fault.struck = 1;
      ++out.corrected;
    }
  }
  look();
  return out;
}

void Faults::forget(uint64_t context, uint64_t address, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.gone = entry.gone || entry.lies_in(context, address, bytes);
  std::erase_if(entries_, [](const Entry& entry) { return entry.gone && !entry.is_spent(); });
  look();
}

} // namespace emu
