#include "modules.h"

#include "context.h"
#include "process.h"

namespace emurt {

emurt_module Modules::get(const char* text_, size_t bytes) {
  const std::string text(text_, bytes);
  const std::shared_ptr<Entry> found = entry(text);
  std::lock_guard<std::mutex> lock(found->mutex);
  if (found->handle != nullptr) {
    context_.counters.module_hits += 1;
  } else {
    found->handle = load(text);
    context_.counters.module_misses += 1;
  }
  return found->handle;
}

std::shared_ptr<Modules::Entry> Modules::entry(const std::string& text) {
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = entries_.find(text);
    if (found != entries_.end()) return found->second;
  }
  auto fresh = std::make_shared<Entry>();
  std::unique_lock<std::shared_mutex> lock(mutex_);
  return entries_.emplace(text, std::move(fresh)).first->second;
}

emurt_module Modules::load(const std::string& text) {
  const emu_driver_api& api = context_.api;
  emu_buffer binary{};
  context_.check(api.assemble(text.data(), text.size(), &binary));
  emu_program* program = nullptr;
  const emu_status status = api.program_load(context_.handle, binary.data, binary.bytes, &program);
  // The failure is made before the buffer goes: releasing it may change last_error.
  try {
    context_.check(status);
  } catch (...) {
    api.buffer_release(&binary);
    throw;
  }
  api.buffer_release(&binary);
  try {
    return context_.process.modules.add({&context_, program});
  } catch (...) {
    api.program_unload(program);
    throw;
  }
}

}  // namespace emurt
