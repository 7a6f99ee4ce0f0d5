#include "firmware.h"

#include <sodium.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "emu_constants.h"
#include "refusal.h"

namespace emu {
namespace {

constexpr uint32_t kCrashesMost = 3;
constexpr char kStateName[] = "state";
constexpr size_t kStateBytes = 256;
constexpr char kStateText[] = "emu firmware state 1\nactive %" PRIu32 "\npending %" PRIu32 "\nprevious %" PRIu32
                              "\nminimum rollback index %" PRIu32 "\n";
constexpr char kStateForm[] = "emu firmware state 1\nactive %" SCNu32 "\npending %" SCNu32 "\nprevious %" SCNu32
                              "\nminimum rollback index %" SCNu32 "\n%n";

std::span<const std::byte> built_in() { return std::as_bytes(std::span(constants::kFirmware)); }

std::string file_of(uint32_t slot) { return format("slot%u.img", slot); }

bool is_slot(uint32_t number) { return number < 2 || number == EMU_NO_SLOT; }

void require_index(const ImageHeader& header, uint32_t minimum) {
  if (header.rollback_index >= minimum) return;
  throw Refusal(EMU_ERROR_ROLLBACK, EMU_SCOPE_COMMAND,
                format("firmware %s is too old for this device: expected rollback index %u or more, got %u",
                       header.version, minimum, header.rollback_index),
                "install firmware that is not older than what ran here");
}

} // namespace

Firmware::Firmware(const std::string& folder) {
  size_t length = 0;
  if (sodium_init() < 0 ||
      sodium_hex2bin(key_, sizeof key_, constants::kFirmwareKey, 64, nullptr, &length, nullptr) != 0 ||
      length != sizeof key_) {
    throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE, "the key of firmware cannot be used");
  }
  if (!folder.empty()) folder_.emplace(folder);
  if (const auto state = folder_ ? folder_->read(kStateName, kStateBytes) : std::nullopt) {
    state_ = parse_state(*state);
    for (uint32_t slot = 0; slot < 2; ++slot) {
      slots_[slot] = folder_->read(file_of(slot), constants::kMaxFirmwareBytes).value_or(std::vector<std::byte>());
    }
    return;
  }
  slots_[0].assign(built_in().begin(), built_in().end());
  if (folder_) folder_->replace(file_of(0), slots_[0]); // before the state, which makes the folder one
  save(State());
}

Firmware::State Firmware::parse_state(const std::vector<std::byte>& bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  State state;
  int end = -1;
  const int found =
      std::sscanf(text.c_str(), kStateForm, &state.active, &state.pending, &state.previous, &state.minimum, &end);
  if (found == 4 && end == int(text.size()) && is_slot(state.active) && is_slot(state.pending) &&
      is_slot(state.previous)) {
    return state;
  }
  throw Refusal(EMU_ERROR_HOST, EMU_SCOPE_DEVICE,
                format("state folder: its file %s is damaged: expected the slots of format 1, got '%.60s'", kStateName,
                       text.c_str()),
                "give back the folder's files as they were, or start with a new folder and the built-in firmware");
}

void Firmware::save(const State& state) {
  if (folder_) {
    const std::string text = format(kStateText, state.active, state.pending, state.previous, state.minimum);
    folder_->replace(kStateName, std::as_bytes(std::span(text)));
  }
  state_ = state;
}

const ImageHeader& Firmware::judge(uint32_t slot) const {
  if (slots_[slot].empty()) {
    throw Refusal(EMU_ERROR_BAD_FIRMWARE, EMU_SCOPE_COMMAND, format("slot %u: expected firmware, got none", slot),
                  "install an image first");
  }
  Judgement& judged = judged_[slot];
  if (std::holds_alternative<std::monostate>(judged)) {
    try {
      judged = judge_image(slots_[slot], EMU_DRIVER_INTERFACE, key_);
    } catch (const Refusal& refusal) {
      judged = refusal;
    }
  }
  if (const auto* refusal = std::get_if<Refusal>(&judged)) throw *refusal;
  return std::get<ImageHeader>(judged);
}

/* Whether the slot can be started; if so `state` says that it runs. */
bool Firmware::starts(uint32_t slot, State& state, std::vector<Happened>& happened) const {
  try {
    const ImageHeader& header = judge(slot);
    require_index(header, state.minimum);
    if (state.active != slot) state.previous = state.active;
    state.active = slot;
    state.minimum = header.rollback_index;
    return true;
  } catch (const Refusal& refusal) {
    happened.push_back({EMU_EVENT_FIRMWARE_REFUSED, refusal.status,
                        format("slot %u was not started: %s", slot, refusal.cause.c_str())});
    return false;
  }
}

Firmware::Start Firmware::next_start(uint32_t chosen, std::vector<Happened> happened) const {
  State state = state_;
  state.pending = EMU_NO_SLOT;
  bool started = chosen != EMU_NO_SLOT && starts(chosen, state, happened);
  if (!started && state.active != EMU_NO_SLOT) started = starts(state.active, state, happened);
  if (!started && state.previous != EMU_NO_SLOT) {
    started = starts(state.previous, state, happened);
    state.previous = EMU_NO_SLOT; // what ran before it cannot
  }
  const ImageHeader header = started ? judge(state.active) : judge_image(built_in(), EMU_DRIVER_INTERFACE, key_);
  if (!started) state.active = EMU_NO_SLOT;
  happened.push_back({EMU_EVENT_BOOT, EMU_OK,
                      started ? format("started %s from slot %u", header.version, state.active)
                              : format("started %s, the built-in image", header.version)});
  return {state, header.version, std::move(happened)};
}

std::vector<Firmware::Happened> Firmware::boot() {
  const std::lock_guard lock(mutex_);
  std::vector<Happened> happened;
  const uint32_t before = state_.active;
  uint32_t chosen = state_.pending;
  const bool has_crashed = has_crashed_;
  const uint32_t crashes = has_crashed ? crashes_ + 1 : 0;
  const bool gives_up = crashes >= kCrashesMost && chosen == EMU_NO_SLOT && before != EMU_NO_SLOT;
  if (gives_up) {
    chosen = other();
    happened.push_back({EMU_EVENT_FIRMWARE_REFUSED, EMU_ERROR_FIRMWARE_CRASH,
                        format("slot %u crashed %u times in a row: slot %u is tried", before, crashes, chosen)});
  }
  Start next = next_start(chosen, happened);
  try {
    if (!(next.state == state_)) save(next.state);
  } catch (const Refusal& refusal) {
    const bool stays_chosen = chosen != EMU_NO_SLOT && next.state.active == chosen;
    happened.push_back({EMU_EVENT_FIRMWARE_REFUSED, refusal.status,
                        (stays_chosen ? format("slot %u was not started: ", chosen) : "which slot runs is not kept: ") +
                            refusal.cause});
    next = next_start(stays_chosen ? EMU_NO_SLOT : chosen, happened);
    if (stays_chosen) next.state.pending = state_.pending;
    state_ = next.state;
  }
  // From here on nothing can fail.
  crashes_ = gives_up || state_.active != before ? 0 : crashes;
  if (has_crashed) has_crashed_ = false; // and not a crash since
  writing_ = 0;
  version_.swap(next.version);
  return std::move(next.happened);
}

void Firmware::crash() noexcept { has_crashed_ = true; }

std::string Firmware::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

emu_firmware_slot Firmware::describe(uint32_t slot) const {
  emu_firmware_slot out{};
  out.bytes = uint32_t(slots_[slot].size());
  if (writing_ != 0 && slot == other()) {
    out.state = EMU_SLOT_WRITING;
    copy_text(out.cause, "an image is being written");
  } else if (!slots_[slot].empty()) {
    try {
      const ImageHeader& header = judge(slot);
      out.minimum_interface = header.minimum_interface;
      out.rollback_index = header.rollback_index;
      copy_text(out.version, header.version);
      copy_text(out.digest, hex(header.digest));
      require_index(header, state_.minimum);
      out.state = EMU_SLOT_VALID;
    } catch (const Refusal& refusal) {
      out.state = refusal.status == EMU_ERROR_BAD_FIRMWARE ? EMU_SLOT_INVALID : EMU_SLOT_REFUSED;
      copy_text(out.cause, refusal.cause);
    }
  }
  return out;
}

emu_firmware_info Firmware::info() const {
  const std::lock_guard lock(mutex_);
  emu_firmware_info out{};
  out.size = sizeof out;
  out.active = state_.active;
  out.pending = state_.pending;
  out.previous = state_.previous;
  out.minimum_rollback_index = state_.minimum;
  out.is_persistent = folder_ ? 1 : 0;
  copy_text(out.version, version_);
  for (uint32_t slot = 0; slot < 2; ++slot) out.slots[slot] = describe(slot);
  return out;
}

std::optional<Firmware::Happened> Firmware::write(uint64_t total, uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const auto ull = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  if (total == 0 || total > constants::kMaxFirmwareBytes) {
    throw Refusal(EMU_ERROR_BAD_FIRMWARE, EMU_SCOPE_COMMAND,
                  format("firmware image: expected 1 to %u bytes, got %llu", constants::kMaxFirmwareBytes, ull(total)));
  }
  const uint32_t slot = other();
  std::vector<std::byte>& image = slots_[slot];
  const uint64_t expected = offset == 0 || writing_ == 0 ? 0 : image.size();
  const uint64_t whole = expected == 0 ? total : writing_;
  if (offset != expected || total != whole || bytes.size() > whole - expected) {
    throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                  format("bytes of a firmware image: expected offset %llu of %llu and at most %llu bytes, got offset "
                         "%llu of %llu and %zu bytes",
                         ull(expected), ull(whole), ull(whole - expected), ull(offset), ull(total), bytes.size()),
                  "write an image from its start, in order, and alone");
  }
  judged_[slot] = std::monostate();
  if (offset == 0) {
    State state = state_;
    if (state.pending == slot) state.pending = EMU_NO_SLOT;
    if (state.previous == slot) state.previous = EMU_NO_SLOT;
    save(state); // before its bytes go
    writing_ = 0;
    image.clear();
    image.reserve(total);
    if (folder_) folder_->start(file_of(slot));
    writing_ = total;
  }
  try {
    if (folder_) folder_->append(file_of(slot), offset, bytes);
  } catch (const Refusal&) {
    writing_ = 0; // what there is, is no image
    throw;
  }
  image.insert(image.end(), bytes.begin(), bytes.end());
  if (image.size() < total) return std::nullopt;
  writing_ = 0;
  const ImageHeader& header = judge(slot);
  require_index(header, state_.minimum);
  return Happened{EMU_EVENT_FIRMWARE_WRITTEN, EMU_OK, format("wrote %s to slot %u", header.version, slot)};
}

Firmware::Happened Firmware::activate() {
  const std::lock_guard lock(mutex_);
  const uint32_t slot = other();
  if (writing_ != 0) {
    throw Refusal(EMU_ERROR_BAD_FIRMWARE, EMU_SCOPE_COMMAND,
                  format("slot %u: expected firmware, got %zu bytes of an image that is being written", slot,
                         slots_[slot].size()),
                  "write the image to its end first");
  }
  const ImageHeader& header = judge(slot);
  require_index(header, state_.minimum);
  State state = state_;
  state.pending = slot;
  Happened activated{EMU_EVENT_FIRMWARE_ACTIVATED, EMU_OK, format("activated %s in slot %u", header.version, slot)};
  save(state);
  return activated;
}

Firmware::Happened Firmware::rollback() {
  const std::lock_guard lock(mutex_);
  State state = state_;
  if (state.pending != EMU_NO_SLOT) {
    const uint32_t slot = std::exchange(state.pending, EMU_NO_SLOT);
    Happened back{EMU_EVENT_FIRMWARE_ROLLED_BACK, EMU_OK, format("took back the activation of slot %u", slot)};
    save(state);
    return back;
  }
  if (state.previous == EMU_NO_SLOT) {
    throw Refusal(EMU_ERROR_BAD_FIRMWARE, EMU_SCOPE_COMMAND,
                  "rollback: expected the firmware that ran before, got none: none did, or it was written over",
                  "install the image that is wanted, and activate it");
  }
  const ImageHeader& header = judge(state.previous);
  require_index(header, state.minimum);
  state.pending = state.previous;
  Happened back{EMU_EVENT_FIRMWARE_ROLLED_BACK, EMU_OK,
                format("activated %s in slot %u again", header.version, state.pending)};
  save(state);
  return back;
}

} // namespace emu
