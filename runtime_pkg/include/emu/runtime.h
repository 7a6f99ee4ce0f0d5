/* The runtime interface: what libemurt.so offers to frameworks and tools.
 *
 * One frozen table, size and version first. Every function may be called from any
 * thread. A device is opened on first use, one context a process and device, and
 * closed by `shutdown` (or at exit, in a defined order: streams are drained, then
 * memory, context and device go).
 *
 * libemurt finds libemudrv by the path given to `emurt_get_api`; there is no search
 * by environment variable or working directory. */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMURT_INTERFACE_MAJOR 1
#define EMURT_INTERFACE_MINOR 2
#define EMURT_INTERFACE (EMURT_INTERFACE_MAJOR * 1000 + EMURT_INTERFACE_MINOR)

/* Statuses and scopes are those of the driver interface (emu/driver.h), by number, and these. */
#define EMURT_OK 0
#define EMURT_ERROR_NO_DRIVER 100   /* libemudrv is not there or does not load */
#define EMURT_ERROR_FORKED 101      /* the parent used the device before fork: use spawn */
#define EMURT_ERROR_SHUT_DOWN 102

typedef struct emurt_error {
  uint32_t size; /* set by the caller */
  int32_t status;
  int32_t scope;
  int32_t device;   /* -1: none */
  uint64_t stream;  /* as `stream_id` gives it, or UINT64_MAX */
  uint64_t command; /* its number on the stream, from 1, or 0 */
  uint64_t address; /* faulting device address, or 0 */
  char program[64];
  char cause[384];
  char mend[256];
} emurt_error;

/* Handles are looked up, never followed: one that was destroyed, or made before a `device_reset`, gives
 * EMU_ERROR_STALE_HANDLE. */
typedef struct emurt_stream_s* emurt_stream; /* NULL: the device's default stream */
typedef struct emurt_event_s* emurt_event;
typedef struct emurt_module_s* emurt_module;

typedef struct emurt_device_properties {
  uint32_t size;
  uint32_t cores;
  uint32_t max_lanes;
  uint32_t interface_version; /* of emud */
  uint64_t memory_bytes;
  uint64_t clock_hertz;
  char name[64];
  char uuid[40];
  char stepping[8];
  char firmware[32];
  char driver[32];
  int32_t is_private;
  int32_t emud_pid;
  char node[256];

  /* Interface 1.2. */
  uint32_t emud_index; /* of the device among those of its emud, as the ends of links are told */
  uint32_t reserved_;
} emurt_device_properties;

typedef struct emurt_memory_stats {
  uint32_t size;
  uint32_t reserved_;
  uint64_t allocated_bytes;      /* handed out to the framework */
  uint64_t allocated_peak_bytes;
  uint64_t reserved_bytes;       /* taken from the device, handed out or cached */
  uint64_t reserved_peak_bytes;
  uint64_t allocations;          /* counters since start */
  uint64_t frees;
  uint64_t driver_allocations;
  uint64_t driver_frees;
  uint64_t out_of_memory;
} emurt_memory_stats;

/* Counters since start, of one device of this process. */
typedef struct emurt_counters {
  uint32_t size;
  uint32_t reserved_;
  uint64_t launches;
  uint64_t copies_to_device;
  uint64_t copies_from_device;
  uint64_t copies_on_device;
  uint64_t bytes_to_device;
  uint64_t bytes_from_device;
  uint64_t bytes_on_device;
  uint64_t module_hits;
  uint64_t module_misses;
  uint64_t synchronizations;
} emurt_counters;

/* Field for field emu_telemetry of emu/driver.h, which says what each is. */
typedef struct emurt_telemetry {
  uint32_t size;
  uint32_t contexts;
  uint32_t queues;
  uint32_t power_mode;
  uint64_t memory_used_bytes;
  uint64_t device_ticks;
  uint64_t busy_ticks;
  uint64_t commands;
  uint64_t launches;
  uint64_t faults;
  uint64_t bytes_to_device;
  uint64_t bytes_from_device;
  uint64_t matrix_ticks;
  uint64_t vector_ticks;
  uint64_t memory_ticks;
  uint64_t copy_ticks;
  uint64_t ecc_corrected;
  uint64_t ecc_uncorrected;
  double clock_hertz;
  double power_watts;
  double temperature_celsius;

  /* Interface 1.2. */
  uint64_t spent_matrix_ticks;
  uint64_t spent_vector_ticks;
  uint64_t spent_memory_ticks;
  uint64_t spent_control_ticks;
  uint64_t spent_copy_ticks;
  uint64_t spent_waiting_ticks;
  uint64_t spent_idle_ticks;
  uint64_t copy_engine_ticks;
  uint64_t bytes_on_device;
  uint64_t to_device_ticks;
  uint64_t from_device_ticks;
  uint64_t on_device_ticks;
  uint64_t program_bytes;
  uint64_t queued_commands;
  uint64_t queue_delay_ticks;
  uint64_t queue_delay_most_ticks;
  uint64_t queue_delay_ns;
  uint64_t queue_delay_most_ns;
  uint64_t memory_peak_bytes;
  uint64_t memory_largest_free_bytes;
  uint32_t memory_pressure;
  uint32_t throttle;
  uint64_t throttled_ticks;
  uint64_t clock_changes;
  uint64_t emud_start_ns;
} emurt_telemetry;

typedef struct emurt_power_mode {
  uint32_t size;
  uint32_t index;
  char name[16];
  uint64_t clock_hertz; /* of the cores */
  double idle_watts;
  double busy_watts;
} emurt_power_mode;

/* Field for field emu_link_info of emu/driver.h. */
typedef struct emurt_link_info {
  uint32_t size;
  uint32_t index;
  uint32_t device[2]; /* as emud counts its own */
  int32_t is_up;
  uint32_t reserved;
  uint64_t bytes_per_tick;
  uint64_t latency_ticks;
  uint64_t errors;
  uint64_t copies[2];
  uint64_t bytes[2];
  uint64_t busy_ticks[2];
} emurt_link_info;

typedef struct emurt_activity {
  uint32_t size;
  uint32_t kind;          /* emu_activity_kind */
  int32_t device;
  int32_t status;
  uint64_t stream;
  uint64_t command;
  uint64_t correlation;
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;
  uint32_t grid[3];
  uint32_t reserved_;
  char program[64];
} emurt_activity;

typedef enum emurt_copy_kind {
  EMURT_COPY_TO_DEVICE = 1,
  EMURT_COPY_FROM_DEVICE = 2,
  EMURT_COPY_ON_DEVICE = 3
} emurt_copy_kind;

typedef struct emurt_api {
  uint32_t size;
  uint32_t version;

  void (*last_error)(emurt_error* out); /* of the calling thread */
  const char* (*status_name)(int32_t status);
  int32_t (*shutdown)(void);

  /* Opens nothing. 0 devices is not an error: `last_error` tells why (no node, permission, versions). */
  int32_t (*device_count)(uint32_t* count);
  int32_t (*device_properties)(int32_t device, emurt_device_properties* out);
  int32_t (*device_telemetry)(int32_t device, emurt_telemetry* out);
  int32_t (*device_counters)(int32_t device, emurt_counters* out);
  int32_t (*device_synchronize)(int32_t device);
  /* Gives up the context of this process on the device, after a fault or to start afresh, and does not wait for what
   * runs there: it ends, and calls that wait for it give EMU_ERROR_STALE_HANDLE. The next use opens a new context.
   * Memory, streams, events and modules made before are stale for good: their addresses and handles are not used again,
   * using one gives EMU_ERROR_STALE_HANDLE, freeing the memory (once) does nothing. (A program that is launched with an
   * old address faults: what its arguments mean is known to nobody else; see `memory_check`.) Pinned host memory that
   * is handed out stays what it is for the host, and is pageable for the device. */
  int32_t (*device_reset)(int32_t device);

  /* Caching allocator. Memory is 512-byte aligned and not cleared; 0 bytes give address 0, which may be freed. A block
   * freed on `stream` may be handed out again for that stream at once, and for another only after all streams that
   * `memory_record` named have passed this point. */
  int32_t (*memory_alloc)(int32_t device, uint64_t bytes, emurt_stream stream, uint64_t* address);
  int32_t (*memory_free)(int32_t device, uint64_t address);
  int32_t (*memory_record)(int32_t device, uint64_t address, emurt_stream stream);
  int32_t (*memory_empty_cache)(int32_t device);
  int32_t (*memory_stats)(int32_t device, emurt_memory_stats* out);
  int32_t (*memory_reset_peaks)(int32_t device);

  /* Pinned host memory, cached; freed memory is not reused before the streams that used it have passed. */
  int32_t (*host_alloc)(uint64_t bytes, void** pointer);
  int32_t (*host_free)(void* pointer);
  int32_t (*host_is_pinned)(const void* pointer);

  /* Streams and events. Priority: lower number first, 0 is the default. A stream that is lost says so in each call that
   * asks for its work, and goes on being lost until it is destroyed; the other streams go on. An event that was
   * recorded on it after what was lost is an error from then on, and never done. `device_synchronize` waits for all
   * streams before it says that one is lost. */
  int32_t (*stream_create)(int32_t device, int32_t priority, emurt_stream* out);
  int32_t (*stream_destroy)(emurt_stream stream);
  uint64_t (*stream_id)(int32_t device, emurt_stream stream); /* 0: default stream; UINT64_MAX: not a live stream */
  int32_t (*stream_query)(int32_t device, emurt_stream stream, int32_t* done);
  int32_t (*stream_synchronize)(int32_t device, emurt_stream stream);
  int32_t (*stream_wait_event)(int32_t device, emurt_stream stream, emurt_event event);
  /* With `timing`, each record also takes a timestamp on the device, which `event_elapsed` needs. */
  int32_t (*event_create)(int32_t device, int32_t timing, emurt_event* out);
  int32_t (*event_destroy)(emurt_event event);
  int32_t (*event_record)(emurt_event event, emurt_stream stream);
  int32_t (*event_query)(emurt_event event, int32_t* done); /* an event that was never recorded is done */
  int32_t (*event_synchronize)(emurt_event event);
  int32_t (*event_elapsed)(emurt_event start, emurt_event end, double* device_milliseconds, double* host_milliseconds);

  /* Copies. Pinned memory is copied once and asynchronously. Pageable memory goes through a pinned staging
   * buffer: to the device the call returns when the source may be reused, from the device when the data is there.
   * `kind` is an emurt_copy_kind. `address` is the device side; on the device it is the destination and
   * `other_address` the source. */
  int32_t (*copy)(int32_t device, emurt_stream stream, int32_t kind, void* host_pointer, uint64_t address,
                  uint64_t other_address, uint64_t bytes);
  int32_t (*fill)(int32_t device, emurt_stream stream, uint64_t address, uint8_t value, uint64_t bytes);

  /* Modules: text of the instruction set (see docs/isa.md), assembled and loaded once a process and device, by
   * content. */
  int32_t (*module_get)(int32_t device, const char* text, size_t bytes, emurt_module* out);
  int32_t (*launch)(int32_t device, emurt_stream stream, emurt_module module, const uint32_t grid[3], const void* args,
                    size_t bytes);

  /* Activity records of all devices of this process, oldest first. `correlation_push` names what the calling
   * thread does next (an operator); records of commands submitted until the pop carry it. What was recorded before a
   * reset of the device or `shutdown` can be read after it. */
  int32_t (*activity_enable)(int32_t on);
  int32_t (*activity_read)(emurt_activity* out, size_t capacity, size_t* count, uint64_t* dropped);
  void (*correlation_push)(uint64_t id);
  void (*correlation_pop)(void);

  /* Interface 1.1. EMU_ERROR_STALE_HANDLE when `address` is in memory that a `device_reset`, of whichever device,
   * found handed out, and that has not been freed since. For who puts addresses into the arguments of a launch; costs
   * some nanoseconds, and opens nothing. */
  int32_t (*memory_check)(uint64_t address);

  /* Interface 1.2. As the entries of the driver: modes count from 0, EMU_ERROR_INVALID_ARGUMENT past the last one; only
   * the user that the device process runs as may set one, which then holds for the whole device. */
  int32_t (*power_mode_info)(int32_t device, uint32_t index, emurt_power_mode* out);
  int32_t (*device_set_power_mode)(int32_t device, uint32_t index);
  /* Links of the device's emud count from 0, EMU_ERROR_INVALID_ARGUMENT past the last one. */
  int32_t (*link_info)(int32_t device, uint32_t index, emurt_link_info* out);
} emurt_api;

/* The only exported symbol. `driver_path`: absolute path of libemudrv.so; the first call of a process decides, a
 * later call may pass NULL. The table is given even when the driver cannot be loaded, so that a diagnosis can be
 * made: then `error` (which may be NULL) and every call that needs the driver give EMURT_ERROR_NO_DRIVER or
 * EMU_ERROR_VERSION. NULL only when `interface_version` cannot be served. */
typedef const emurt_api* (*emurt_get_api_fn)(uint32_t interface_version, const char* driver_path, emurt_error* error);
const emurt_api* emurt_get_api(uint32_t interface_version, const char* driver_path, emurt_error* error);

#ifdef __cplusplus
}
#endif
#endif
