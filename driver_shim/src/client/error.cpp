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

const char* status_name(int32_t status) {
  switch (emu_status(status)) {
    case EMU_OK: return "OK";
    case EMU_ERROR_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case EMU_ERROR_NO_DEVICE: return "NO_DEVICE";
    case EMU_ERROR_PERMISSION: return "PERMISSION";
    case EMU_ERROR_VERSION: return "VERSION";
    case EMU_ERROR_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case EMU_ERROR_BAD_PROGRAM: return "BAD_PROGRAM";
    case EMU_ERROR_PAGE_FAULT: return "PAGE_FAULT";
    case EMU_ERROR_MISALIGNED: return "MISALIGNED";
    case EMU_ERROR_ILLEGAL_COMMAND: return "ILLEGAL_COMMAND";
    case EMU_ERROR_BUDGET: return "BUDGET";
    case EMU_ERROR_TIMEOUT: return "TIMEOUT";
    case EMU_ERROR_CONTEXT_LOST: return "CONTEXT_LOST";
    case EMU_ERROR_DEVICE_LOST: return "DEVICE_LOST";
    case EMU_ERROR_STALE_HANDLE: return "STALE_HANDLE";
    case EMU_ERROR_NOT_SUPPORTED: return "NOT_SUPPORTED";
    case EMU_ERROR_HOST: return "HOST";
    case EMU_ERROR_LAUNCH_TIMEOUT: return "LAUNCH_TIMEOUT";
    case EMU_ERROR_OUT_OF_BOUNDS: return "OUT_OF_BOUNDS";
    case EMU_ERROR_BAD_FIRMWARE: return "BAD_FIRMWARE";
    case EMU_ERROR_ROLLBACK: return "ROLLBACK";
    case EMU_ERROR_QUEUE_LOST: return "QUEUE_LOST";
    case EMU_ERROR_MEMORY_ERROR: return "MEMORY_ERROR";
    case EMU_ERROR_THERMAL_TRIP: return "THERMAL_TRIP";
    case EMU_ERROR_FIRMWARE_CRASH: return "FIRMWARE_CRASH";
    case EMU_ERROR_CANCELLED: return "CANCELLED";
    case EMU_ERROR_FENCE_BROKEN: return "FENCE_BROKEN";
    case EMU_ERROR_LINK_DOWN: return "LINK_DOWN";
  }
  return "UNKNOWN";
}

} // namespace emu::client
