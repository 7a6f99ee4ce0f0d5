/* Floating-point numbers as text, whatever the process's locale.
 *
 * Not through iostreams: the engine is linked with a static libstdc++ into a library that meets the shared one in
 * the same process, and the facets of the two are mixed up (their ids are unique symbols). */
#ifndef EMU_MACHINE_DECIMAL_H
#define EMU_MACHINE_DECIMAL_H

#include <optional>
#include <string>
#include <string_view>

namespace emu::machine {

/* "1.5", "-1e-3", "inf", "-inf", "nan"; nothing for other text or a number beyond f64. Rounds once. */
std::optional<double> parse_decimal(std::string_view text);

/* The shortest digits that read back as the same number. */
std::string decimal_text(double value);

}  // namespace emu::machine

#endif
