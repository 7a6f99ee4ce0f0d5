/* One line an event, to a file or to nowhere. */
#ifndef EMU_LOG_H
#define EMU_LOG_H

#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace emu {

inline FILE* log_file = nullptr; // set once, before threads start

[[gnu::format(printf, 1, 2)]] inline void log(const char* text, ...) {
  if (log_file == nullptr) return;
  char line[768];
  const time_t now = std::time(nullptr);
  tm parts;
  gmtime_r(&now, &parts);
  size_t length = std::strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &parts);
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line + length, sizeof line - length, text, arguments);
  va_end(arguments);
  std::fprintf(log_file, "%s\n", line);
  std::fflush(log_file);
}

} // namespace emu

#endif
