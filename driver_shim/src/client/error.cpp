#include "error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace emu::client {
namespace {

thread_local emu_error last = {};

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  std::snprintf(to, N, "%s", from.c_str());
}

} // namespace

Error::Error(emu_status status, emu_scope scope, const std::string& cause, const std::string& mend) {
  error.size = sizeof error;
  error.status = status;
  error.scope = scope;
  error.queue = UINT32_MAX;
  copy_text(error.cause, cause);
  copy_text(error.mend, mend);
}

Error host_error(const std::string& call, int number) {
  return Error(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, call + ": " + std::strerror(number));
}

Error device_lost_error(int emud) {
  return Error(EMU_ERROR_DEVICE_LOST, EMU_SCOPE_DEVICE, format("the device process (emud, process %d) is gone", emud),
               "close the device and open it again; see the log of emud for why it ended");
}

std::string format(const char* text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

void set_last_error(const emu_error& error) { last = error; }

void get_last_error(emu_error* out) {
  if (out == nullptr || out->size < sizeof(uint32_t) * 2) return;
  const uint32_t size = out->size < sizeof last ? out->size : uint32_t(sizeof last);
  std::memcpy(out, &last, size);
  out->size = size;
}

} // namespace emu::client
