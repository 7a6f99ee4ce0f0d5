/* The names of emu_status, as both ends tell them. */
#ifndef EMU_STATUS_NAME_H
#define EMU_STATUS_NAME_H

#include "emu/driver.h"

namespace emu {

inline const char* status_name(int32_t status) {
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

} // namespace emu

#endif
