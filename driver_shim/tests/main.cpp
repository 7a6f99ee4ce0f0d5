#include <dlfcn.h>

#include "harness.h"
#include "process.h"

namespace emu::test {

const emu_driver_api* api = nullptr;

std::map<std::string, Case>& cases() {
  static std::map<std::string, Case> all;
  return all;
}

} // namespace emu::test

namespace {

using namespace emu::test;

/* Loads the library; asked for what it cannot serve, it names both numbers. */
void load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(__FILE__, __LINE__, dlerror());
  const auto get_api = reinterpret_cast<emu_driver_get_api_fn>(dlsym(library, "emu_driver_get_api"));
  CHECK(get_api != nullptr);
  emu_error error{};
  error.size = sizeof error;
  CHECK(get_api(EMU_DRIVER_INTERFACE + 1, nullptr) == nullptr);
  CHECK(get_api(EMU_DRIVER_INTERFACE + 1000, &error) == nullptr);
  CHECK(error.status == EMU_ERROR_VERSION);
  const std::string minor = "." + std::to_string(EMU_DRIVER_INTERFACE_MINOR);
  SAYS(error.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR + 1) + minor);
  SAYS(error.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + minor);
  api = get_api(EMU_DRIVER_INTERFACE, nullptr);
  CHECK(api != nullptr);
  CHECK(api->size == sizeof(emu_driver_api));
  CHECK(api->version == EMU_DRIVER_INTERFACE);
}

} // namespace

int main(int argc, char** argv) {
  const auto found = argc == 4 ? cases().find(argv[3]) : cases().end();
  if (found == cases().end()) {
    std::fprintf(stderr, "usage: driver_cases LIBEMUDRV EMUD CASE\ncases:\n");
    for (const auto& [name, run] : cases()) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  return supervise(argv[2], [&] {
    load(argv[1]);
    found->second();
  });
}
