#include "failure.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace emurt {

std::string text(const char* format, ...) {
  char buffer[640];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

emurt_error make_error(int32_t status, int32_t scope, int32_t device, const std::string& cause,
                       const std::string& mend) {
  emurt_error error{};
  error.size = sizeof error;
  error.status = status;
  error.scope = scope;
  error.device = device;
  error.stream = kNoStream;
  snprintf(error.cause, sizeof error.cause, "%s", cause.c_str());
  snprintf(error.mend, sizeof error.mend, "%s", mend.c_str());
  return error;
}

void fail(int32_t status, int32_t device, const std::string& cause, const std::string& mend) {
  throw Failure(make_error(status, EMU_SCOPE_COMMAND, device, cause, mend));
}

// Here and not in the driver, so that a diagnosis has names when there is no driver.
const char* status_name(int32_t status) {
  switch (status) {
    case EMU_OK: return "ok";
    case EMU_ERROR_INVALID_ARGUMENT: return "invalid argument";
    case EMU_ERROR_NO_DEVICE: return "no device";
    case EMU_ERROR_PERMISSION: return "permission";
    case EMU_ERROR_VERSION: return "version";
    case EMU_ERROR_OUT_OF_MEMORY: return "out of memory";
    case EMU_ERROR_BAD_PROGRAM: return "bad program";
    case EMU_ERROR_PAGE_FAULT: return "page fault";
    case EMU_ERROR_MISALIGNED: return "misaligned";
    case EMU_ERROR_ILLEGAL_COMMAND: return "illegal command";
    case EMU_ERROR_BUDGET: return "budget";
    case EMU_ERROR_TIMEOUT: return "timeout";
    case EMU_ERROR_CONTEXT_LOST: return "context lost";
    case EMU_ERROR_DEVICE_LOST: return "device lost";
    case EMU_ERROR_STALE_HANDLE: return "stale handle";
    case EMU_ERROR_NOT_SUPPORTED: return "not supported";
    case EMU_ERROR_HOST: return "host";
    case EMU_ERROR_LAUNCH_TIMEOUT: return "launch timeout";
    case EMU_ERROR_OUT_OF_BOUNDS: return "out of bounds";
    case EMU_ERROR_BAD_FIRMWARE: return "bad firmware";
    case EMU_ERROR_ROLLBACK: return "rollback";
    case EMU_ERROR_QUEUE_LOST: return "queue lost";
    case EMU_ERROR_MEMORY_ERROR: return "memory error";
    case EMU_ERROR_THERMAL_TRIP: return "thermal trip";
    case EMU_ERROR_FIRMWARE_CRASH: return "firmware crash";
    case EMU_ERROR_CANCELLED: return "cancelled";
    case EMU_ERROR_FENCE_BROKEN: return "fence broken";
    case EMU_ERROR_LINK_DOWN: return "link down";
    case EMURT_ERROR_NO_DRIVER: return "no driver";
    case EMURT_ERROR_FORKED: return "forked";
    case EMURT_ERROR_SHUT_DOWN: return "shut down";
    default: return "unknown status";
  }
}

}  // namespace emurt
