#include "correlation.h"

#include <vector>

namespace emurt {

namespace {
thread_local std::vector<uint64_t> stack;
}

void correlation_push(uint64_t id) { stack.push_back(id); }

void correlation_pop() {
  if (!stack.empty()) stack.pop_back();
}

uint64_t correlation_top() { return stack.empty() ? 0 : stack.back(); }

}  // namespace emurt
