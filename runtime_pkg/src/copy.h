// Copies between host and device and on the device, counted by direction. Pinned memory
// of the same context is used as it is; all other host memory goes through staging.
#pragma once

#include "context.h"

namespace emurt {

void copy_to_device(Context& context, Queue& queue, uint64_t address, const void* source, uint64_t bytes);
void copy_from_device(Context& context, Queue& queue, void* target, uint64_t address, uint64_t bytes);
void copy_on_device(Context& context, Queue& queue, uint64_t target, uint64_t source, uint64_t bytes);

}  // namespace emurt
