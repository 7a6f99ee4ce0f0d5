#include "copy.h"

namespace emurt {

namespace {

void count(std::atomic<uint64_t>& copies, std::atomic<uint64_t>& total, uint64_t bytes) {
  copies.fetch_add(1, std::memory_order_relaxed);
  total.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

void copy_to_device(Context& context, Queue& queue, uint64_t address, const void* source, uint64_t bytes) {
  if (bytes == 0) return;
  if (context.pinned.contains(source, bytes, &queue)) {
    const uint64_t sequence = queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* number) {
      return context.api.queue_copy_to_device(handle, address, source, bytes, correlation, number);
    });
    context.pinned.used(source, {&queue, sequence});
  } else {
    context.to_device.to_device(queue, address, static_cast<const char*>(source), bytes);
  }
  count(context.counters.copies_to_device, context.counters.bytes_to_device, bytes);
}

void copy_from_device(Context& context, Queue& queue, void* target, uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  if (context.pinned.contains(target, bytes, &queue)) {
    const uint64_t sequence = queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* number) {
      return context.api.queue_copy_from_device(handle, target, address, bytes, correlation, number);
    });
    context.pinned.used(target, {&queue, sequence});
  } else {
    context.from_device.from_device(queue, static_cast<char*>(target), address, bytes);
  }
  count(context.counters.copies_from_device, context.counters.bytes_from_device, bytes);
}

void copy_on_device(Context& context, Queue& queue, uint64_t target, uint64_t source, uint64_t bytes) {
  if (bytes == 0) return;
  queue.submit([&](emu_queue* handle, uint64_t correlation, uint64_t* number) {
    return context.api.queue_copy_on_device(handle, target, source, bytes, correlation, number);
  });
  count(context.counters.copies_on_device, context.counters.bytes_on_device, bytes);
}

}  // namespace emurt
