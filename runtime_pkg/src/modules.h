// Programs by their text: assembled and loaded once a context, also when several
// threads ask for one at the same time.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "failure.h"

namespace emurt {

class Context;

struct Module {
  Context* context;
  emu_program* program;
};

class Modules {
 public:
  explicit Modules(Context& context) : context_(context) {}

  emurt_module get(const char* text, size_t bytes);

 private:
  struct Entry {
    std::mutex mutex;
    emurt_module handle = nullptr;  // null until loaded
  };
  std::shared_ptr<Entry> entry(const std::string& text);
  emurt_module load(const std::string& text);

  Context& context_;
  std::shared_mutex mutex_;
  // The key is the whole text, so that no two programs are ever taken for each other.
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace emurt
