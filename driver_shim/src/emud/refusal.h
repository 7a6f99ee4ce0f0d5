/* Why a request is refused: becomes the Reply as it is. */
#ifndef EMU_REFUSAL_H
#define EMU_REFUSAL_H

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "emu/driver.h"

namespace emu {

struct Refusal : std::exception {
  Refusal(emu_status status_, emu_scope scope_, std::string cause_, std::string mend_ = "")
      : status(status_), scope(scope_), cause(std::move(cause_)), mend(std::move(mend_)) {}
  const char* what() const noexcept override { return cause.c_str(); }

  emu_status status;
  emu_scope scope;
  std::string cause;
  std::string mend;
};

[[gnu::format(printf, 1, 2)]] inline std::string format(const char* text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

/* Copies as much as fits and always ends with a NUL. */
template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const size_t length = from.size() < N ? from.size() : N - 1;
  from.copy(to, length);
  to[length] = '\0';
}

} // namespace emu

#endif
