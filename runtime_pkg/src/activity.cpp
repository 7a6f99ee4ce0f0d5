#include "activity.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "process.h"

namespace emurt {

namespace {

constexpr size_t kBatch = 1024;

emurt_activity translate(const Context& context, const emu_activity& in) {
  emurt_activity out{};
  out.size = sizeof out;
  out.kind = in.kind;
  out.device = context.index;
  out.status = in.status;
  out.stream = context.stream_id_of(in.queue);
  out.command = in.command;
  out.correlation = in.correlation;
  out.start_ticks = in.start_ticks;
  out.end_ticks = in.end_ticks;
  out.start_ns = in.start_ns;
  out.end_ns = in.end_ns;
  out.bytes = in.bytes;
  memcpy(out.grid, in.grid, sizeof out.grid);
  static_assert(sizeof out.program == sizeof in.program, "a program's name fits");
  memcpy(out.program, in.program, sizeof out.program);
  return out;
}

}  // namespace

void Activity::enable(Process& process, bool on) {
  on_.store(on);
  if (on) was_on_.store(true);
  std::exception_ptr failure;  // of one device, which keeps none of the others
  for (int32_t index = 0; index < Process::kMostDevices; ++index) {
    try {
      if (Context* context = process.context_if_open(index)) {
        context->check(context->api.activity_enable(context->handle, on ? 1 : 0));
      }
    } catch (const Failure&) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void Activity::collect(Context& context) {
  std::vector<emu_activity> batch(kBatch);
  size_t count = kBatch;
  while (count == kBatch) {
    uint64_t dropped = 0;
    for (emu_activity& record : batch) record.size = sizeof record;
    context.check(context.api.activity_read(context.handle, batch.data(), kBatch, &count, &dropped));
    dropped_ += dropped;
    for (size_t index = 0; index < count; ++index) records_.push_back(translate(context, batch[index]));
  }
}

void Activity::keep(Context& context) noexcept {
  if (!was_on_.load()) return;
  try {
    std::lock_guard<std::mutex> lock(mutex_);
    collect(context);
  } catch (const std::exception&) {
    // Its device is gone, or the host is short of memory: there is nobody to ask again.
  }
}

size_t Activity::read(Process& process, emurt_activity* out, size_t capacity, uint64_t* dropped) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::exception_ptr failure;  // of one device, which does not keep the records of the others
  for (int32_t index = 0; index < Process::kMostDevices; ++index) {
    try {
      if (Context* context = process.context_if_open(index)) collect(*context);
    } catch (const Failure&) {
      failure = std::current_exception();
    }
  }
  if (failure && records_.empty()) std::rethrow_exception(failure);
  std::stable_sort(records_.begin(), records_.end(),
                   [](const emurt_activity& a, const emurt_activity& b) { return a.end_ns < b.end_ns; });
  const size_t count = std::min(capacity, records_.size());
  std::copy_n(records_.begin(), count, out);
  records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(count));
  *dropped = dropped_;
  dropped_ = 0;
  return count;
}

}  // namespace emurt
