#include "driver_library.h"

#include <dlfcn.h>

namespace emurt {

namespace {
const char* const kReinstall = "Install the driver again: pip install --force-reinstall 'emu-driver-shim~=0.1.0'";
}

void DriverLibrary::refuse(int32_t status, const std::string& cause, const std::string& mend) {
  reason_ = make_error(status, EMU_SCOPE_HOST, -1, cause, mend);
}

void DriverLibrary::load(const char* path) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (tried_ || path == nullptr) return;
  tried_ = true;
  if (path[0] != '/') {
    refuse(EMURT_ERROR_NO_DRIVER, text("the driver's path must be absolute, got '%s'", path),
           "Give the path that emu_driver_shim.library_path() returns");
    return;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    refuse(EMURT_ERROR_NO_DRIVER, text("the driver library does not load: %s", dlerror()), kReinstall);
    return;
  }
  auto get_api = reinterpret_cast<emu_driver_get_api_fn>(dlsym(library, "emu_driver_get_api"));
  if (get_api == nullptr) {
    refuse(EMURT_ERROR_NO_DRIVER, text("%s does not offer emu_driver_get_api", path), kReinstall);
    return;
  }
  emu_error error{};
  error.size = sizeof error;
  const emu_driver_api* api = get_api(EMU_DRIVER_INTERFACE, &error);
  if (api == nullptr) {
    refuse(EMU_ERROR_VERSION, error.cause, error.mend);
  } else if (api->size < sizeof(emu_driver_api)) {
    refuse(EMU_ERROR_VERSION,
           text("%s has a table of %u bytes, this runtime needs %zu", path, api->size, sizeof(emu_driver_api)),
           kReinstall);
  } else {
    api_ = api;
  }
}

void DriverLibrary::adopt(const DriverLibrary& other) {
  tried_ = other.tried_;
  api_ = other.api_;
  reason_ = other.reason_;
}

const emu_driver_api& DriverLibrary::api() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (api_ != nullptr) return *api_;
  if (!tried_) {
    refuse(EMURT_ERROR_NO_DRIVER, "no path of the driver library was given",
           "Load the runtime through emu_runtime.load()");
  }
  throw Failure(reason_);
}

}  // namespace emurt
