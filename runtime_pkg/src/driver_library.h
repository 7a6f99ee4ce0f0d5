// libemudrv, loaded by the path that the first `emurt_get_api` of the process gave.
#pragma once

#include <mutex>
#include <string>

#include "failure.h"

namespace emurt {

class DriverLibrary {
 public:
  // The first path decides, whether or not it loads; later calls change nothing.
  void load(const char* path);

  // Takes over what `other` has, which no other thread uses: for a child after fork.
  void adopt(const DriverLibrary& other);

  // Throws EMURT_ERROR_NO_DRIVER (or EMU_ERROR_VERSION) with the reason when there is no table.
  const emu_driver_api& api();

 private:
  void refuse(int32_t status, const std::string& cause, const std::string& mend);

  std::mutex mutex_;
  bool tried_ = false;
  const emu_driver_api* api_ = nullptr;
  emurt_error reason_{};
};

}  // namespace emurt
