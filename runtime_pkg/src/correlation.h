// What the calling thread is doing (an operator), by a number that commands carry.
#pragma once

#include <cstdint>

namespace emurt {

void correlation_push(uint64_t id);
void correlation_pop();        // without a push: nothing
uint64_t correlation_top();    // 0: nothing was pushed

}  // namespace emurt
