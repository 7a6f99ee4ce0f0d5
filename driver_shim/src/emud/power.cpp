#include "power.h"

#include <algorithm>
#include <cmath>

namespace emu {
namespace {

constexpr double kUtilisation = constants::kUtilisationSeconds;
constexpr double kThermal = constants::kThermalSeconds;
static_assert(kUtilisation > 0 && kThermal > 0 && kUtilisation != kThermal, "the solution has their difference below");
static_assert(constants::kThrottleStopCelsius < constants::kThrottleStartCelsius);
static_assert(constants::kLowestClockPercent > 0 && constants::kTripCelsius > constants::kThrottleStartCelsius);

} // namespace

Power::Power(uint32_t mode, double ambient_celsius)
    : ambient_(ambient_celsius), mode_(mode), celsius_(settled(idle_watts())) {
  look();
}

CoreClock Power::clock() const {
  const uint32_t asked = constants::kPowerModes[mode_].clock_percent;
  return {throttle_ == EMU_THROTTLE_NONE ? asked : std::min(asked, constants::kLowestClockPercent)};
}

double Power::swing_watts() const {
  const constants::PowerMode& mode = constants::kPowerModes[mode_];
  return (mode.busy_watts - mode.idle_watts) * double(clock().percent) / mode.clock_percent;
}

double Power::watts() const { return idle_watts() + swing_watts() * utilisation_; }

void Power::set_mode(uint32_t mode) {
  const uint64_t before = clock().percent;
  mode_ = mode;
  if (clock().percent != before) ++clock_changes_;
}

/* Utilisation u goes to 1 or 0 as e^(-t/a); the temperature T follows what the power of u would settle at:
 *   T' = (S + D e^(-t/a) - T) / b, with S where it settles in the end and D how far u is from there now, in degrees.
 * With G = D a / (a - b) that is T(t) = S + G e^(-t/a) + (T(0) - S - G) e^(-t/b). */
void Power::pass(uint64_t ticks, bool busy) {
  if (ticks == 0) return;
  if (busy && throttle_ != EMU_THROTTLE_NONE) throttled_ticks_ += ticks;
  const double seconds = double(ticks) / double(constants::kClockHertz);
  const double share = busy ? 1 : 0;
  const double in_the_end = settled(idle_watts() + swing_watts() * share);
  const double away = constants::kCelsiusPerWatt * swing_watts() * (utilisation_ - share);
  const double part = away * kUtilisation / (kUtilisation - kThermal);
  // expm1 and not exp, which would need glibc 2.29: this program promises 2.28.
  const double decay = std::expm1(-seconds / kUtilisation);
  celsius_ += part * decay + (celsius_ - in_the_end - part) * std::expm1(-seconds / kThermal);
  utilisation_ += (utilisation_ - share) * decay;
  look();
}

void Power::trip() {
  celsius_ = std::max(celsius_, constants::kTripCelsius);
  set_throttle(EMU_THROTTLE_TRIP);
}

void Power::restart() {
  set_throttle(EMU_THROTTLE_NONE);
  look();
}

std::optional<uint64_t> Power::ticks_to_cool() const {
  constexpr uint64_t step = constants::kClockHertz / 10;
  Power later = *this;
  uint64_t ticks = 0;
  for (; later.celsius_ > constants::kThrottleStopCelsius; ticks += step) {
    if (ticks > step * 10'000) return std::nullopt; // a thousand seconds, of time constants of some
    later.pass(step, false);
  }
  return ticks;
}

void Power::look() {
  if (throttle_ == EMU_THROTTLE_TRIP) return;
  if (celsius_ >= constants::kThrottleStartCelsius) set_throttle(EMU_THROTTLE_THERMAL);
  if (celsius_ <= constants::kThrottleStopCelsius) set_throttle(EMU_THROTTLE_NONE);
}

void Power::set_throttle(emu_throttle throttle) {
  const uint64_t before = clock().percent;
  throttle_ = throttle;
  if (clock().percent != before) ++clock_changes_;
}

} // namespace emu
