/* Clock, power and temperature of the compute engine, on the device clock.
 *
 * A pure model: the same calls give the same figures on every host. Between two calls it is solved exactly, so that how
 * a span of time is cut up changes nothing but rounding; that a throttle starts or stops is seen at the calls. */
#ifndef EMU_POWER_H
#define EMU_POWER_H

#include <cstdint>
#include <optional>
#include <utility>

#include "emu/driver.h"
#include "emu_constants.h"

namespace emu {

/* What cycles of the cores are in ticks of the device. */
struct CoreClock {
  uint64_t percent; // of constants::kClockHertz

  uint64_t ticks(uint64_t cycles) const {
    return cycles / percent * 100 + (cycles % percent * 100 + percent - 1) / percent;
  }
  uint64_t whole_ticks(uint64_t cycles) const { return cycles / percent * 100 + cycles % percent * 100 / percent; }
  double hertz() const { return double(constants::kClockHertz) * double(percent) / 100; }
};

class Power {
 public:
  /* Settled as an idle device in air of `ambient_celsius`. `mode` is an index of constants::kPowerModes. */
  Power(uint32_t mode, double ambient_celsius);

  void set_mode(uint32_t mode);
  /* The mode from here on, until it is put back: what began in it ends in it. It is no change of clock. */
  uint32_t exchange_mode(uint32_t mode) { return std::exchange(mode_, mode); }
  void pass(uint64_t ticks, bool busy); // that much of the device clock, in which the engine worked or did not

  /* As hot as constants::kTripCelsius, and tripped until `restart`. */
  void trip();
  void restart();
  /* From here to the end of a throttle, idle; nothing where the air is too hot for it. */
  std::optional<uint64_t> ticks_to_cool() const;

  CoreClock clock() const;
  uint32_t mode() const { return mode_; }
  emu_throttle throttle() const { return throttle_; }
  uint64_t throttled_ticks() const { return throttled_ticks_; } // of work
  uint64_t clock_changes() const { return clock_changes_; }
  double watts() const;
  double celsius() const { return celsius_; }

 private:
  double idle_watts() const { return constants::kPowerModes[mode_].idle_watts; }
  double swing_watts() const; // from idle to busy, at the present clock
  double settled(double watts) const { return ambient_ + constants::kCelsiusPerWatt * watts; }
  void look();
  void set_throttle(emu_throttle throttle); // counts where the clock changes

  double ambient_;
  uint32_t mode_;
  double utilisation_ = 0;
  double celsius_;
  emu_throttle throttle_ = EMU_THROTTLE_NONE;
  uint64_t throttled_ticks_ = 0;
  uint64_t clock_changes_ = 0;
};

} // namespace emu

#endif
