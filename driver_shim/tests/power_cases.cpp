/* The model of clock, power and temperature by itself: hours of device time in no time. Numbers are of machine.toml. */
#include <cmath>

#include "harness.h"
#include "power.h"

using namespace emu;
using namespace emu::test;

namespace {

constexpr uint32_t kNominal = 0, kEco = 1, kBoost = 2;
constexpr uint64_t kSecond = 1'000'000'000;

bool close(double a, double b) { return std::abs(a - b) < 1e-6; }

} // namespace

CASE(power_settles) {
  Power power(kNominal, 30);
  CHECK(close(power.watts(), 20) && close(power.celsius(), 30 + 0.35 * 20));
  for (int i = 0; i < 1000; ++i) power.pass(kSecond, true);
  CHECK(close(power.watts(), 120) && close(power.celsius(), 30 + 0.35 * 120));
  CHECK(power.throttle() == EMU_THROTTLE_NONE && power.clock_changes() == 0 && power.throttled_ticks() == 0);
  power.set_mode(kEco);
  CHECK(power.clock_changes() == 1 && close(power.clock().hertz(), 0.6e9));
  power.set_mode(kEco);
  CHECK(power.clock_changes() == 1);
  for (int i = 0; i < 1000; ++i) power.pass(kSecond, false);
  CHECK(close(power.watts(), 12) && close(power.celsius(), 30 + 0.35 * 12));
}

/* Against the differential equation in small steps, and cut up in other ways. */
CASE(power_is_solved_exactly) {
  Power once(kNominal, 30), often(kNominal, 30);
  double utilisation = 0, celsius = 37;
  for (const bool busy : {true, false, true}) {
    once.pass(7 * kSecond, busy);
    for (int i = 0; i < 700; ++i) often.pass(kSecond / 100, busy);
    constexpr double kStep = 1e-5;
    for (int i = 0; i < 700'000; ++i) {
      celsius += (30 + 0.35 * (20 + 100 * utilisation) - celsius) / 20 * kStep;
      utilisation += ((busy ? 1 : 0) - utilisation) * kStep;
    }
    CHECK(std::abs(once.celsius() - celsius) < 1e-3);
    CHECK(std::abs(once.watts() - (20 + 100 * utilisation)) < 1e-2);
    CHECK(close(once.celsius(), often.celsius()) && close(once.watts(), often.watts()));
  }
}

CASE(power_throttles) {
  constexpr uint64_t kStep = kSecond / 10;
  Power power(kBoost, 30);
  CHECK(close(power.clock().hertz(), 1.25e9));
  int throttles = 0;
  uint64_t throttled = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool before = power.throttle() == EMU_THROTTLE_THERMAL;
    power.pass(kStep, true);
    if (before) throttled += kStep;
    const bool now = power.throttle() == EMU_THROTTLE_THERMAL;
    CHECK(power.celsius() < 90.5 && close(power.clock().hertz(), now ? 0.4e9 : 1.25e9));
    if (now && !before) CHECK(power.celsius() >= 90 && ++throttles > 0);
    if (throttles == 0) CHECK(i < 449); // docs/telemetry.md: 45 seconds
    if (i < 440) CHECK(throttles == 0);
    if (before && !now) CHECK(power.celsius() <= 80);
    if (before && now) CHECK(power.celsius() > 80);
  }
  CHECK(throttles >= 2 && throttled > 0 && power.throttled_ticks() == throttled);
  CHECK(power.clock_changes() >= uint64_t(2 * throttles - 1) && power.clock_changes() <= uint64_t(2 * throttles));
  const uint64_t worked = power.throttled_ticks();
  power.pass(1000 * kSecond, false); // it does not work, and cools down
  CHECK(power.throttled_ticks() == worked && power.throttle() == EMU_THROTTLE_NONE);
}

CASE(power_trip_changes_the_clock) {
  Power power(kBoost, 30);
  power.trip();
  CHECK(power.clock_changes() == 1 && close(power.clock().hertz(), 0.4e9));
  while (power.celsius() > 80) power.pass(kSecond, false);
  CHECK(power.clock_changes() == 1);
  power.restart();
  CHECK(power.clock_changes() == 2 && close(power.clock().hertz(), 1.25e9));
}

CASE(core_clock_rounds) {
  const CoreClock eco{60}, nominal{100}, boost{125};
  CHECK(eco.ticks(0) == 0 && eco.ticks(1) == 2 && eco.ticks(3) == 5 && eco.ticks(2000) == 3334);
  CHECK(eco.whole_ticks(1) == 1 && eco.whole_ticks(3) == 5 && eco.whole_ticks(2000) == 3333);
  CHECK(boost.ticks(5) == 4 && boost.ticks(6) == 5 && boost.whole_ticks(6) == 4);
  CHECK(nominal.ticks(UINT64_MAX) == UINT64_MAX && nominal.whole_ticks(UINT64_MAX) == UINT64_MAX);
}
