// Device allocator and device guard: memory, streams and events as PyTorch asks for them.
//
// Memory is freed when the last tensor goes, which may be after the runtime has shut
// down at exit: a deleter therefore never raises and ignores what the runtime says.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <mutex>

#include "bounds.h"
#include "runtime.h"

namespace emu {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

template <int device>
void free_on(void* pointer) {
  if (pointer != nullptr && runtime_loaded()) (void)api().memory_free(device, reinterpret_cast<uint64_t>(pointer));
}

template <size_t... device>
constexpr std::array<c10::DeleterFnPtr, sizeof...(device)> make_deleters(std::index_sequence<device...>) {
  return {&free_on<static_cast<int>(device)>...};
}
constexpr auto deleters = make_deleters(std::make_index_sequence<kMaxDevices>{});

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const int device = current_device();
    const Device where(kDeviceType, static_cast<DeviceIndex>(device));
    uint64_t at = 0;
    if (bytes != 0) check(api().memory_alloc(device, bytes, current_stream(device), &at), "memory allocation");
    void* pointer = reinterpret_cast<void*>(at);
    return {pointer, pointer, deleters[static_cast<size_t>(device)], where};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const int device = current_device();
    check(api().copy(device, current_stream(device), EMURT_COPY_ON_DEVICE, nullptr, address(to), address(from), bytes),
          "copy on the device");
  }

  bool initialized() override { return runtime_loaded(); }
  void emptyCache(c10::MempoolId_t) override {
    for (int device = 0; device < device_count(); ++device)
      check(api().memory_empty_cache(device), "emptying the memory cache");
  }
  void recordStream(const c10::DataPtr& pointer, Stream stream) override {
    if (pointer.get() == nullptr) return;
    check(api().memory_record(pointer.device().index(), address(pointer.get()), handle(stream)), "record_stream");
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    emurt_memory_stats stats{};
    stats.size = sizeof stats;
    check(api().memory_stats(device, &stats), "memory statistics");
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::CachingDeviceAllocator::DeviceStats out;
    out.allocated_bytes[all].current = static_cast<int64_t>(stats.allocated_bytes);
    out.allocated_bytes[all].peak = static_cast<int64_t>(stats.allocated_peak_bytes);
    out.reserved_bytes[all].current = static_cast<int64_t>(stats.reserved_bytes);
    out.reserved_bytes[all].peak = static_cast<int64_t>(stats.reserved_peak_bytes);
    out.allocation[all].current = static_cast<int64_t>(stats.allocations - stats.frees);
    out.allocation[all].allocated = static_cast<int64_t>(stats.allocations);
    out.allocation[all].freed = static_cast<int64_t>(stats.frees);
    out.num_device_alloc = static_cast<int64_t>(stats.driver_allocations);
    out.num_device_free = static_cast<int64_t>(stats.driver_frees);
    out.num_ooms = static_cast<int64_t>(stats.out_of_memory);
    return out;
  }
  void resetAccumulatedStats(DeviceIndex) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "emu: the runtime's counters run since start and cannot be reset");
  }
  void resetPeakStats(DeviceIndex device) override { check(api().memory_reset_peaks(device), "resetting peaks"); }
};

// Streams have no end in PyTorch, so they are made once and handed out in turn. Who asks for one gives up those
// that are lost, or that a reset of the device ended: that is how a program gets rid of them. A loss that nobody was
// told of is told here, once: its work would pass for done.
struct StreamPool {
  static constexpr size_t kStreams = 8;
  struct Ring {
    std::array<emurt_stream, kStreams> streams{};
    size_t next = 0;
  };
  std::mutex mutex;
  Ring usual, preferred;

  emurt_stream take(int device, int priority) {
    const std::lock_guard lock(mutex);
    for (Ring* ring : {&usual, &preferred})
      for (emurt_stream& stream : ring->streams) give_up_if_lost(device, stream);
    Ring& ring = priority < 0 ? preferred : usual;
    emurt_stream& stream = ring.streams[ring.next];
    ring.next = (ring.next + 1) % kStreams;
    if (stream == nullptr) {
      check(api().stream_create(device, priority, &stream), "making a stream");
      (void)forget_loss(device, api().stream_id(device, stream));  // of one before that had its number
    }
    return stream;
  }

 private:
  static void give_up_if_lost(int device, emurt_stream& stream) {
    int32_t done = 0;
    if (stream == nullptr || api().stream_query(device, stream, &done) == EMURT_OK) return;
    const emurt_error error = last_error();
    (void)api().stream_destroy(stream);
    stream = nullptr;
    if (error.scope == kScopeOfQueue && !forget_loss(device, error.stream)) raise(error, "the work of a stream");
  }
};

// An event does not say whose it is.
void check_all_bounds() {
  for (int device = 0; device < kMaxDevices; ++device) check_bounds(device);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    set_current_device(device.index());
    return before;
  }
  Device getDevice() const override { return Device(kDeviceType, static_cast<DeviceIndex>(current_device())); }
  void setDevice(Device device) const override {
    note_thread();
    set_current_device(device.index());
  }
  void uncheckedSetDevice(Device device) const noexcept override { set_current_device_unchecked(device.index()); }
  DeviceIndex deviceCount() const noexcept override { return static_cast<DeviceIndex>(device_count()); }

  Stream getStream(Device device) const override {
    const int index = device.has_index() ? device.index() : current_device();
    return wrap(index, current_stream(index));
  }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getStreamFromGlobalPool(Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  Stream getNewStream(Device device, int priority) const override {
    static std::array<StreamPool, kMaxDevices> pools;
    const int index = device.has_index() ? device.index() : current_device();
    return wrap(index, pools[static_cast<size_t>(index)].take(index, priority < 0 ? -1 : 0));
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    set_current_stream(stream.device_index(), handle(stream));
    return before;
  }
  void* getStreamNativeHandle(const Stream stream) const override { return handle(stream); }
  bool queryStream(const Stream& stream) const override {
    int32_t done = 0;
    check(api().stream_query(stream.device_index(), handle(stream), &done), "stream query");
    if (done != 0) check_bounds(stream.device_index());
    return done != 0;
  }
  void synchronizeStream(const Stream& stream) const override {
    check(api().stream_synchronize(stream.device_index(), handle(stream)), "stream synchronization");
    check_bounds(stream.device_index());
  }
  void synchronizeDevice(const DeviceIndex device) const override {
    check(api().device_synchronize(device), "device synchronization");
    check_bounds(device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const Stream& stream) const override {
    if (pointer.get() == nullptr) return;
    check(api().memory_record(pointer.device().index(), address(pointer.get()), handle(stream)), "record_stream");
  }

  void record(void** event, const Stream& stream, const DeviceIndex device, const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "emu: an event of device ", device,
                " cannot be recorded on a stream of device ", stream.device_index());
    auto made = static_cast<emurt_event>(*event);
    if (made == nullptr) {
      const int32_t timing = flag == c10::EventFlag::BACKEND_DEFAULT ? 1 : 0;
      check(api().event_create(stream.device_index(), timing, &made), "making an event");
      *event = made;
    }
    check(api().event_record(made, handle(stream)), "event record");
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) return;
    check(api().stream_wait_event(stream.device_index(), handle(stream), static_cast<emurt_event>(event)),
          "waiting for an event");
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    int32_t done = 0;
    check(api().event_query(static_cast<emurt_event>(event), &done), "event query");
    if (done != 0) check_all_bounds();
    return done != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check(api().event_synchronize(static_cast<emurt_event>(event)), "event synchronization");
    check_all_bounds();
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    if (event != nullptr && runtime_loaded()) (void)api().event_destroy(static_cast<emurt_event>(event));
  }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "emu: both events have to be recorded before their time is asked");
    double device_milliseconds = 0;
    double host_milliseconds = 0;
    check(api().event_elapsed(static_cast<emurt_event>(start), static_cast<emurt_event>(end), &device_milliseconds,
                              &host_milliseconds),
          "elapsed time");
    return device_milliseconds;
  }
  c10::DeviceCapability getDeviceCapability(Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits =
        (1ULL << c10::kIndex_Byte) | (1ULL << c10::kIndex_Char) | (1ULL << c10::kIndex_Short) |
        (1ULL << c10::kIndex_Int) | (1ULL << c10::kIndex_Long) | (1ULL << c10::kIndex_Half) |
        (1ULL << c10::kIndex_Float) | (1ULL << c10::kIndex_Double) | (1ULL << c10::kIndex_Bool) |
        (1ULL << c10::kIndex_BFloat16);
    return capability;
  }
};

// PyTorch keeps both for ever and never destroys them.
const c10::impl::DeviceGuardImplRegistrar guard_registrar(kDeviceType, new Guard());
const bool allocator_registered = [] {
  c10::SetAllocator(kDeviceType, new Allocator());
  return true;
}();

}  // namespace
}  // namespace emu
