#include "launch.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "exit.h"

namespace emu {
namespace {

struct Hash {
  size_t operator()(const ProgramKey& key) const {
    uint64_t hash = reinterpret_cast<uintptr_t>(key.kind) ^ (key.first * 0x9e3779b97f4a7c15ULL);
    hash ^= (hash >> 29) ^ (key.second * 0xbf58476d1ce4e5b9ULL);
    return hash ^ (hash >> 32);
  }
};

struct Programs {
  std::shared_mutex mutex;
  std::unordered_map<ProgramKey, emurt_module, Hash> modules;
};
Programs& programs(int device) {
  static auto* all = new std::array<Programs, kMaxDevices>();
  return (*all)[static_cast<size_t>(device)];
}

emurt_module load(int device, const ProgramKey& key, const std::function<std::string()>& write) {
  const std::string text = write();
  emurt_module module = nullptr;
  check(api().module_get(device, text.data(), text.size(), &module), "loading a device program");
  Programs& known = programs(device);
  const std::unique_lock lock(known.mutex);
  known.modules[key] = module;
  return module;
}

}  // namespace

void launch(int device, const ProgramKey& key, const std::function<std::string()>& write, const Grid& grid,
            const uint64_t* args, int slots) {
  park_here();
  emurt_module module = nullptr;
  Programs& known = programs(device);
  {
    const std::shared_lock lock(known.mutex);
    const auto found = known.modules.find(key);
    if (found != known.modules.end()) module = found->second;
  }
  if (module == nullptr) module = load(device, key, write);
  const size_t bytes = static_cast<size_t>(slots) * sizeof(uint64_t);
  int32_t status = api().launch(device, current_stream(device), module, grid.data(), args, bytes);
  if (C10_UNLIKELY(status == 14 /* EMU_ERROR_STALE_HANDLE: the device was reset */)) {
    module = load(device, key, write);
    status = api().launch(device, current_stream(device), module, grid.data(), args, bytes);
  }
  check(status, "launch");
  park_here();
}

uint32_t blocks(int64_t elements, int64_t per_block) {
  const int64_t count = (elements + per_block - 1) / per_block;
  TORCH_CHECK(count <= UINT32_MAX, "emu: ", elements, " elements are more than one launch takes (", UINT32_MAX, " blocks of ",
              per_block, "); split the tensor");
  return static_cast<uint32_t>(count);
}

}  // namespace emu
