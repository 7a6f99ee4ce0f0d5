#include <dlfcn.h>

#include "harness.h"

namespace emu::test {

const emu_driver_api* api = nullptr;

std::map<std::string, Case>& cases() {
  static std::map<std::string, Case> all;
  return all;
}

} // namespace emu::test

int main(int argc, char** argv) {
  using namespace emu::test;
  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (const auto& [name, run] : cases()) std::puts(name.c_str());
    return 0;
  }
  const auto found = argc == 3 ? cases().find(argv[2]) : cases().end();
  if (found == cases().end()) {
    std::fprintf(stderr, "usage: driver_cases --list | LIBEMUDRV CASE\n");
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto get_api = reinterpret_cast<emu_driver_get_api_fn>(dlsym(library, "emu_driver_get_api"));
  if (get_api == nullptr) return 2;

  // Asked for what it cannot serve, the library names both numbers.
  emu_error error{};
  error.size = sizeof error;
  CHECK(get_api(EMU_DRIVER_INTERFACE + 1, nullptr) == nullptr);
  CHECK(get_api(EMU_DRIVER_INTERFACE + 1000, &error) == nullptr);
  CHECK(error.status == EMU_ERROR_VERSION);
  SAYS(error.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR + 1) + "." + std::to_string(EMU_DRIVER_INTERFACE_MINOR));
  SAYS(error.cause, std::to_string(EMU_DRIVER_INTERFACE_MAJOR) + "." + std::to_string(EMU_DRIVER_INTERFACE_MINOR));

  api = get_api(EMU_DRIVER_INTERFACE, nullptr);
  CHECK(api != nullptr);
  CHECK(api->size == sizeof(emu_driver_api));
  CHECK(api->version == EMU_DRIVER_INTERFACE);
  found->second();
  std::puts("ok");
  return 0;
}
