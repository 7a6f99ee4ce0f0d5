/* The driver interface: what libemudrv.so offers, and the only door to the device.
 *
 * The interface number is written here, once. All else reads it: the table, the
 * handshake with emud, the Python packages (through CMake), the compatibility file.
 *
 * Every function may be called from any thread. None of them takes ownership of
 * the caller's memory. A call that fails returns a status and leaves the details
 * for `last_error` of the calling thread. Handles of one process mean nothing in
 * another, and a handle from before a reset gives EMU_ERROR_STALE_HANDLE.
 *
 * Host memory reaches the device only through `host_alloc` (pinned, shared with the
 * device process): there is no call that takes a pageable pointer. */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_DRIVER_INTERFACE_MAJOR 1
#define EMU_DRIVER_INTERFACE_MINOR 2
#define EMU_DRIVER_INTERFACE (EMU_DRIVER_INTERFACE_MAJOR * 1000 + EMU_DRIVER_INTERFACE_MINOR)

typedef enum emu_status {
  EMU_OK = 0,
  EMU_ERROR_INVALID_ARGUMENT = 1,
  EMU_ERROR_NO_DEVICE = 2,
  EMU_ERROR_PERMISSION = 3,       /* a node may not be opened, or what is asked is not for this process */
  EMU_ERROR_VERSION = 4,          /* interface numbers do not meet */
  EMU_ERROR_OUT_OF_MEMORY = 5,    /* device or pinned memory */
  EMU_ERROR_BAD_PROGRAM = 6,      /* text does not assemble, or the verifier refuses */
  EMU_ERROR_PAGE_FAULT = 7,       /* access outside the context's pages, or against their permission */
  EMU_ERROR_MISALIGNED = 8,
  EMU_ERROR_ILLEGAL_COMMAND = 9,
  EMU_ERROR_BUDGET = 10,          /* a program used up its tick budget */
  EMU_ERROR_TIMEOUT = 11,         /* the wait ended, the work goes on */
  EMU_ERROR_CONTEXT_LOST = 12,    /* an earlier fault ended this context */
  EMU_ERROR_DEVICE_LOST = 13,     /* the device process is gone */
  EMU_ERROR_STALE_HANDLE = 14,
  EMU_ERROR_NOT_SUPPORTED = 15,
  EMU_ERROR_HOST = 16,            /* a host call failed; the cause names it and errno */
  EMU_ERROR_LAUNCH_TIMEOUT = 17,  /* a program took longer on the host than one launch may */
  EMU_ERROR_OUT_OF_BOUNDS = 18,   /* a lane's index is outside of what its instruction was given */
  EMU_ERROR_BAD_FIRMWARE = 19,    /* an image is damaged, cut short or not signed, or a slot has none to start */
  EMU_ERROR_ROLLBACK = 20,        /* the image's rollback index is lower than the device accepts */
  EMU_ERROR_QUEUE_LOST = 21,      /* an earlier fault ended this queue, or a reset gave the command up */
  EMU_ERROR_MEMORY_ERROR = 22,    /* a page that is read has a bit error that cannot be corrected */
  EMU_ERROR_THERMAL_TRIP = 23,    /* the device was too hot, and stopped */
  EMU_ERROR_FIRMWARE_CRASH = 24,
  EMU_ERROR_CANCELLED = 25,       /* of an activity record: queue_cancel took the command back */
  EMU_ERROR_FENCE_BROKEN = 26,    /* a fence will not reach the value: who could signal it is gone */
  EMU_ERROR_LINK_DOWN = 27        /* a copy's link to another device is down */
} emu_status;

/* What has to be given up to go on after an error, smallest first. */
typedef enum emu_scope {
  EMU_SCOPE_COMMAND = 0,
  EMU_SCOPE_QUEUE = 1,
  EMU_SCOPE_CONTEXT = 2,
  EMU_SCOPE_DEVICE = 3,
  EMU_SCOPE_HOST = 4
} emu_scope;

typedef struct emu_error {
  uint32_t size; /* set by the caller to sizeof(emu_error) */
  int32_t status;
  int32_t scope;
  uint32_t queue;   /* id of the queue whose command failed, or UINT32_MAX */
  uint64_t command; /* its sequence number, or 0 */
  uint64_t address; /* faulting device address, or 0 */
  char program[64]; /* name of the program that ran, or "" */
  char cause[384];  /* one sentence: what happened, expected against got */
  char mend[256];   /* one sentence: what to do, or "" */
} emu_error;

typedef struct emu_device emu_device;
typedef struct emu_context emu_context;
typedef struct emu_queue emu_queue;
typedef struct emu_program emu_program;
typedef struct emu_fence emu_fence;

typedef struct emu_device_info {
  uint32_t size;
  uint32_t index;
  char name[64];            /* "Emulated accelerator" */
  char uuid[40];
  char stepping[8];         /* "A0" */
  char firmware[32];        /* "1.0.0" */
  char driver[32];          /* version of the emu-driver-shim that emud came from */
  uint32_t interface_version; /* EMU_DRIVER_INTERFACE of emud */
  uint32_t cores;
  uint32_t max_lanes;
  uint32_t host_threads;    /* threads emud runs blocks on */
  uint64_t memory_bytes;
  uint64_t page_bytes;
  uint64_t clock_hertz;
  int32_t is_private;       /* 1: this process started the emud for itself */
  int32_t emud_pid;
  char node[256];           /* path of the device node, or of the private socket */
} emu_device_info;

/* Why the cores run slower than the power mode says. */
typedef enum emu_throttle {
  EMU_THROTTLE_NONE = 0,
  EMU_THROTTLE_THERMAL = 1,
  EMU_THROTTLE_FAULT = 2, /* an injected fault makes commands slow */
  EMU_THROTTLE_TRIP = 3   /* nothing runs until the device is reset */
} emu_throttle;

typedef enum emu_memory_pressure {
  EMU_MEMORY_PRESSURE_NONE = 0,
  EMU_MEMORY_PRESSURE_HIGH = 1,
  EMU_MEMORY_PRESSURE_CRITICAL = 2
} emu_memory_pressure;

/* A device tick is 1 / clock_hertz of emu_device_info in every power mode; docs/telemetry.md says what each figure
 * means. Counts are since emud started. */
typedef struct emu_telemetry {
  uint32_t size;
  uint32_t contexts;
  uint32_t queues;
  uint32_t power_mode;      /* an index, see power_mode_info */
  uint64_t memory_used_bytes;
  uint64_t device_ticks;    /* of the device clock since emud started */
  uint64_t busy_ticks;
  uint64_t commands;        /* ended, with an error or without */
  uint64_t launches;
  uint64_t faults;
  uint64_t bytes_to_device;  /* from the host or over a link */
  uint64_t bytes_from_device;
  uint64_t matrix_ticks;    /* of launches, summed over the cores */
  uint64_t vector_ticks;
  uint64_t memory_ticks;
  uint64_t copy_ticks;      /* of both engines */
  uint64_t ecc_corrected;
  uint64_t ecc_uncorrected;
  double clock_hertz;       /* of the cores, now */
  double power_watts;
  double temperature_celsius;

  /* Interface 1.2. What the compute engine spent its time on, launches by what their busiest core did: the seven add up
   * to device_ticks. Idle may shrink: work that depends on nothing is placed where the engine stands. */
  uint64_t spent_matrix_ticks;
  uint64_t spent_vector_ticks;
  uint64_t spent_memory_ticks;
  uint64_t spent_control_ticks; /* starting launches, and clearing registers */
  uint64_t spent_copy_ticks;    /* copies and fills of compute queues */
  uint64_t spent_waiting_ticks; /* for a fence */
  uint64_t spent_idle_ticks;
  uint64_t copy_engine_ticks;   /* that the copy engine worked */

  /* Bytes that went each way, and the ticks of the copies that took them; the ticks add up to copy_ticks. */
  uint64_t bytes_on_device;
  uint64_t to_device_ticks;
  uint64_t from_device_ticks;
  uint64_t on_device_ticks;
  uint64_t program_bytes;       /* of the loads and stores of programs */

  /* From when an engine found a command ready to start (first in its queue, its fences passed) to when it took it up,
   * on the device clock; and from its submission to its start on the host's. Commands that take no time don't count. */
  uint64_t queued_commands;
  uint64_t queue_delay_ticks;   /* sum */
  uint64_t queue_delay_most_ticks;
  uint64_t queue_delay_ns;      /* sum, in steps of 512; only of 1.2 clients */
  uint64_t queue_delay_most_ns;

  uint64_t memory_peak_bytes;
  uint64_t memory_largest_free_bytes;
  uint32_t memory_pressure;     /* emu_memory_pressure */
  uint32_t throttle;            /* emu_throttle, now */
  uint64_t throttled_ticks;     /* that the compute engine worked while throttled */
  uint64_t clock_changes;       /* of the cores: of power mode, or throttling */
  uint64_t emud_start_ns;       /* CLOCK_MONOTONIC of the host when emud started; each emud has its own */
} emu_telemetry;

/* One of the modes of spec/machine.toml. */
typedef struct emu_power_mode {
  uint32_t size;
  uint32_t index;
  char name[16];
  uint64_t clock_hertz; /* of the cores */
  double idle_watts;
  double busy_watts;
} emu_power_mode;

typedef struct emu_memory_info {
  uint32_t size;
  uint32_t allocations;     /* of this context */
  uint64_t total_bytes;     /* of the device */
  uint64_t free_bytes;
  uint64_t context_bytes;   /* held by this context */
} emu_memory_info;

#define EMU_MEMORY_READ 1u /* access of memory_protect */
#define EMU_MEMORY_WRITE 2u
#define EMU_CANCEL_RUNNING 1u /* flag of queue_cancel */

typedef enum emu_queue_kind { EMU_QUEUE_COMPUTE = 0, EMU_QUEUE_COPY = 1 } emu_queue_kind;

typedef enum emu_activity_kind {
  EMU_ACTIVITY_LAUNCH = 1,
  EMU_ACTIVITY_COPY_TO_DEVICE = 2,
  EMU_ACTIVITY_COPY_FROM_DEVICE = 3,
  EMU_ACTIVITY_COPY_ON_DEVICE = 4,
  EMU_ACTIVITY_FILL = 5,
  EMU_ACTIVITY_WAIT = 6,
  EMU_ACTIVITY_FAULT = 7,
  EMU_ACTIVITY_FIRMWARE = 8,
  EMU_ACTIVITY_TIMESTAMP = 9,
  EMU_ACTIVITY_SIGNAL = 10,
  EMU_ACTIVITY_COPY_PEER = 11
} emu_activity_kind;

/* One finished command, or what happened to the firmware meanwhile: then `command` is the number of the event,
 * `program` the start of its text and `queue` UINT32_MAX. Ticks are of the device clock; nanoseconds are the host's
 * CLOCK_MONOTONIC. */
typedef struct emu_activity {
  uint32_t size;
  uint32_t kind;
  uint32_t queue;
  int32_t status;
  uint64_t command;       /* sequence number in its queue */
  uint64_t correlation;   /* given at submission */
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;         /* copies and fills */
  uint32_t grid[3];
  char program[64];
} emu_activity;

/* What `queue_timestamp` writes: the device clock, and the host's CLOCK_MONOTONIC. */
typedef struct emu_timestamp { uint64_t ticks; uint64_t nanoseconds; } emu_timestamp;

typedef struct emu_buffer { void* data; size_t bytes; } emu_buffer;

#define EMU_NO_SLOT UINT32_MAX

typedef enum emu_slot_state {
  EMU_SLOT_EMPTY = 0,
  EMU_SLOT_INVALID = 1, /* half-written or damaged */
  EMU_SLOT_VALID = 2,
  EMU_SLOT_WRITING = 3,
  EMU_SLOT_REFUSED = 4  /* whole and signed, and for a newer driver or too old for this device */
} emu_slot_state;

typedef struct emu_firmware_slot {
  uint32_t state;
  uint32_t minimum_interface; /* these four where an image is whole and for this driver; else 0 and "" */
  uint32_t rollback_index;
  char version[32];
  char digest[68];          /* SHA-256 of the payload, in hex */
  uint32_t bytes;           /* that the slot holds */
  char cause[160];          /* why it cannot be started, or "" */
} emu_firmware_slot;

typedef struct emu_firmware_info {
  uint32_t size;
  /* The slot that runs, or EMU_NO_SLOT: neither could be started, and the built-in image runs. */
  uint32_t active;
  uint32_t pending;         /* the slot that the next start or reset tries, or EMU_NO_SLOT */
  uint32_t previous;        /* the slot that ran before and is as it was then, or EMU_NO_SLOT */
  uint32_t minimum_rollback_index; /* the highest that ever ran */
  int32_t is_persistent;    /* 0: the slots are in memory, and gone with emud */
  char version[32];         /* of what runs */
  emu_firmware_slot slots[2];
} emu_firmware_info;

typedef enum emu_event_kind {
  EMU_EVENT_BOOT = 1,
  EMU_EVENT_FIRMWARE_WRITTEN = 2,
  EMU_EVENT_FIRMWARE_ACTIVATED = 3,
  EMU_EVENT_FIRMWARE_ROLLED_BACK = 4,
  EMU_EVENT_FIRMWARE_REFUSED = 5,
  EMU_EVENT_RESET = 6,
  EMU_EVENT_FAULT = 7,
  EMU_EVENT_CONTEXT_LOST = 8,
  EMU_EVENT_CLIENT_LOST = 9, /* a client ended, killed or not, and left contexts behind */
  EMU_EVENT_INJECTION = 10,  /* a fault was injected, or taken back */
  EMU_EVENT_LINK = 11        /* a link of the device went down, or came up */
} emu_event_kind;

/* What happened on the device. Ticks are of the device clock; nanoseconds are the host's CLOCK_MONOTONIC. */
typedef struct emu_event {
  uint32_t size;
  uint32_t kind;
  uint64_t sequence;        /* from 1, counting up since emud started */
  uint64_t ticks;
  uint64_t nanoseconds;
  uint64_t context;         /* emud's number of it, or 0 */
  uint64_t command;         /* of a fault: its sequence number in its queue; else 0 */
  uint32_t queue;           /* of a fault; else UINT32_MAX */
  int32_t process;          /* of the client that it is about, or 0 */
  int32_t status;
  int32_t scope;
  char text[160];           /* "" where it is about a process of another user */
} emu_event;

/* docs/faults.md has the scope of each, what is told of it, and how to recover; spec/faults.toml declares them. */
typedef enum emu_fault_kind {
  EMU_FAULT_BIT_CORRECTED = 1,
  EMU_FAULT_BIT_UNCORRECTED = 2,
  EMU_FAULT_HANG = 3,
  EMU_FAULT_LOST_DOORBELL = 4,
  EMU_FAULT_PAGE_FAULT = 5,
  EMU_FAULT_THERMAL_TRIP = 6,
  EMU_FAULT_FIRMWARE_CRASH = 7,
  EMU_FAULT_SLOW = 8,
  EMU_FAULT_LINK_DOWN = 9
} emu_fault_kind;

/* A fault that the device is told to have, and what it strikes. It spares the first `skip` commands that match, and
 * then strikes `times` of them. A bit error strikes once, who reads its page next. */
typedef struct emu_fault {
  uint32_t size;
  uint32_t kind;
  uint64_t number;  /* of the injection, from 1; given out */
  int32_t process;  /* whose commands; 0: any's. Of a bit error, whose memory; 0: of who asks */
  uint32_t queue;   /* id of the queue whose commands, or UINT32_MAX: any */
  uint32_t command; /* emu_activity_kind of the commands, or 0: any. A hang is of launches, a link of peer copies */
  uint32_t factor;  /* of EMU_FAULT_SLOW: how many times the ticks, 2 to 1000; else 0 */
  uint64_t skip;
  uint64_t times;   /* 0: always, until it is cleared */
  uint64_t address; /* of a bit error */
  uint64_t struck;  /* how often so far; given out */
} emu_fault;

/* Stands for a fence in any process. Who has it may use the fence: it is a secret. */
typedef struct emu_fence_token { uint64_t part[2]; } emu_fence_token;
#define EMU_FENCE_MAY_SIGNAL 1u /* flag of fence_export */

/* A link between two devices of one emud. Element 0 is of the way from device[0] to device[1], element 1 of that
 * back. */
typedef struct emu_link_info {
  uint32_t size;
  uint32_t index;
  uint32_t device[2];       /* their indices, the lower one first */
  int32_t is_up;
  uint32_t reserved;
  uint64_t bytes_per_tick;  /* each way */
  uint64_t latency_ticks;   /* of each copy */
  uint64_t errors;          /* copies that found it down */
  uint64_t copies[2];
  uint64_t bytes[2];
  uint64_t busy_ticks[2];   /* that it carried a copy */
} emu_link_info;

/* The table is frozen: an entry is never moved, changed or taken away; new ones go to the end. */
typedef struct emu_driver_api {
  uint32_t size;    /* sizeof of the table that the library was built with */
  uint32_t version; /* EMU_DRIVER_INTERFACE of the library */

  void (*last_error)(emu_error* out);
  const char* (*status_name)(int32_t status);

  /* Devices. `device_count` opens nothing; with no device it gives EMU_OK and 0, and last_error says why. */
  emu_status (*device_count)(uint32_t* count);
  emu_status (*device_open)(uint32_t index, emu_device** out);
  void (*device_close)(emu_device*);
  emu_status (*device_info)(emu_device*, emu_device_info* out);
  emu_status (*device_telemetry)(emu_device*, emu_telemetry* out);

  /* Contexts: an address space and all that lives in it. Destroying one ends its queues, a launch under way
   * included, and frees its device memory; pinned host memory stays until host_free. No two contexts of a process
   * have an address in common, so that an address of one that was destroyed is never memory of another. */
  emu_status (*context_create)(emu_device*, emu_context** out);
  emu_status (*context_destroy)(emu_context*);

  /* Device memory: page-aligned, reads as zero when fresh. */
  emu_status (*memory_alloc)(emu_context*, uint64_t bytes, uint64_t* address);
  emu_status (*memory_free)(emu_context*, uint64_t address);
  emu_status (*memory_info)(emu_context*, emu_memory_info* out);

  /* Pinned host memory, 4096-byte aligned, zeroed. When its context was destroyed it is plain memory of the process,
   * and `host_free` with the old handle gives it back. */
  emu_status (*host_alloc)(emu_context*, uint64_t bytes, void** pointer);
  emu_status (*host_free)(emu_context*, void* pointer);

  /* Programs. Buffers given out are released with `buffer_release`. */
  emu_status (*assemble)(const char* text, size_t bytes, emu_buffer* out);
  emu_status (*disassemble)(const void* binary, size_t bytes, emu_buffer* out);
  void (*buffer_release)(emu_buffer*);
  emu_status (*program_load)(emu_context*, const void* binary, size_t bytes, emu_program** out);
  emu_status (*program_unload)(emu_program*);

  /* Queues. A command gets the next sequence number (from 1) of its queue; commands of one queue run in
   * order, and the queue's timeline stands at the number of the last one that is done. Submission is
   * asynchronous; a full ring blocks until there is room. `pointer` lies in memory of host_alloc.
   * Each engine's device time is shared equally between the processes that want it. Within a process the queue of the
   * lowest `priority` number goes first, always, and equal ones take turns.
   * Destroying a queue ends it, and waits only for a command of another queue of its context that runs, or a copy of
   * another context to or from it: synchronize first what is to be done.
   * A launch under way ends, and what was not done is given up: a queue that waits for it is EMU_ERROR_QUEUE_LOST. Only
   * in a context that was made by the table for 1.1 or older all that was submitted is done first, however long. */
  emu_status (*queue_create)(emu_context*, emu_queue_kind, int32_t priority, emu_queue** out);
  emu_status (*queue_destroy)(emu_queue*);
  uint32_t (*queue_id)(emu_queue*);
  emu_status (*queue_launch)(emu_queue*, emu_program*, const uint32_t grid[3], const void* args, size_t bytes,
                             uint64_t correlation, uint64_t* sequence);
  emu_status (*queue_copy_to_device)(emu_queue*, uint64_t address, const void* pointer, uint64_t bytes,
                                     uint64_t correlation, uint64_t* sequence);
  emu_status (*queue_copy_from_device)(emu_queue*, void* pointer, uint64_t address, uint64_t bytes,
                                       uint64_t correlation, uint64_t* sequence);
  emu_status (*queue_copy_on_device)(emu_queue*, uint64_t to, uint64_t from, uint64_t bytes, uint64_t correlation,
                                     uint64_t* sequence);
  emu_status (*queue_fill)(emu_queue*, uint64_t address, uint8_t value, uint64_t bytes, uint64_t correlation,
                           uint64_t* sequence);
  /* Later commands of this queue start only after `other` has reached `value`. */
  emu_status (*queue_wait)(emu_queue*, emu_queue* other, uint64_t value, uint64_t* sequence);

  /* Timeline of a queue, seen by the host. timeout_ns 0 polls, UINT64_MAX waits for ever. A fault of the
   * queue's context is given here, with the command that caused it. */
  emu_status (*queue_completed)(emu_queue*, uint64_t* value);
  emu_status (*queue_synchronize)(emu_queue*, uint64_t value, uint64_t timeout_ns);

  /* Activity records, oldest first; off until enabled. The record buffer is bounded; `dropped` counts what did not
   * fit. */
  emu_status (*activity_enable)(emu_context*, int32_t on);
  emu_status (*activity_read)(emu_context*, emu_activity* out, size_t capacity, size_t* count, uint64_t* dropped);

  /* Writes an emu_timestamp to `pointer` (8-byte aligned, in memory of host_alloc) when the queue gets here. */
  emu_status (*queue_timestamp)(emu_queue*, void* pointer, uint64_t correlation, uint64_t* sequence);

  /* Interface 1.2. Power modes count from 0; past the last one it is EMU_ERROR_INVALID_ARGUMENT. A mode holds for the
   * whole device, from the next command on. Only processes of the user that emud runs as may set it (who asks is told
   * by the kernel, SO_PEERCRED): a private device's, always. Others get EMU_ERROR_PERMISSION. */
  emu_status (*power_mode_info)(emu_device*, uint32_t index, emu_power_mode* out);
  emu_status (*device_set_power_mode)(emu_device*, uint32_t index);

  /* Firmware (docs/firmware.md). All but `firmware_info` and `event_read` need a process of the user that emud runs
   * as, and give EMU_ERROR_PERMISSION to others.
   *
   * `firmware_write` takes the bytes of an image of `total` bytes in order, into the slot that does not run. Offset 0
   * gives up what that slot held, an activation of it included. With the last byte the image is judged; until then, and
   * if it is refused, the slot is invalid. An image that is not good is EMU_ERROR_BAD_FIRMWARE, one for a newer driver
   * EMU_ERROR_VERSION, an older one than the device accepts EMU_ERROR_ROLLBACK: each names expected and got. */
  emu_status (*firmware_info)(emu_device*, emu_firmware_info* out);
  emu_status (*firmware_write)(emu_device*, uint64_t total, uint64_t offset, const void* data, size_t bytes);
  /* The slot that does not run is started at the next reset or start of the device. */
  emu_status (*firmware_activate)(emu_device*);
  /* Takes back an activation that has not happened yet; else activates the firmware that ran before this one. */
  emu_status (*firmware_rollback)(emu_device*);
  /* Every context of the device, of whatever process, is lost, and its handles are stale; then firmware starts. */
  emu_status (*device_reset)(emu_device*);
  /* Events with a higher sequence number than `after`, oldest first; the log is bounded, and `dropped` counts those
   * between `after` and the last of `out` that are no longer there. */
  emu_status (*event_read)(emu_device*, uint64_t after, emu_event* out, size_t capacity, size_t* count,
                           uint64_t* dropped);

  /* Gives up what was submitted to the queue and is not done, a launch under way included; what that has written
   * stays written. Then the queue runs again, lost before or not: the timeline stands at the last command that was
   * given up, and a synchronize up to one of these is EMU_ERROR_QUEUE_LOST. A queue that waits for one of them is lost
   * with it. Other queues of the context go on. EMU_ERROR_CONTEXT_LOST where the context is. */
  emu_status (*queue_reset)(emu_queue*);

  /* Injected faults (docs/faults.md). All need a process of the user that emud runs as, and give EMU_ERROR_PERMISSION
   * to others. What was injected stays through a reset of the device, until it has struck `times` times or is cleared;
   * it is listed until it is cleared, or gives its place to a new one. The event log has each injection and strike. */
  emu_status (*fault_inject)(emu_device*, const emu_fault* fault, uint64_t* number);
  emu_status (*fault_clear)(emu_device*, uint64_t number); /* 0: all */
  emu_status (*fault_list)(emu_device*, emu_fault* out, size_t capacity, size_t* count); /* oldest first */

  /* Takes back the commands of the queue from sequence number `from` on that were submitted before this call and have
   * not started. Each is passed over when its turn comes, a wait without waiting: it does nothing, takes no device
   * time, and its activity record says EMU_ERROR_CANCELLED. The timeline goes on over it, and a signal of a fence is
   * given, so that nobody who waits for it hangs; commands that are submitted later run. `first` is the lowest number
   * that is passed over, or the next one to be submitted where none is; all from there on are.
   * EMU_CANCEL_RUNNING also ends a launch, copy or fill of number `from` or later that is under way, within some tens
   * of milliseconds: it is done as far as the timeline goes, its record says EMU_ERROR_CANCELLED unless it was done
   * before, and what it wrote is a part of what it would have written. Without that flag what started goes on. */
  emu_status (*queue_cancel)(emu_queue*, uint64_t from, uint32_t flags, uint64_t* first);

  /* Fences across contexts, processes and devices of one emud (docs/queues.md). A fence is a counter from 0, which a
   * context holds: the one that made it, and those that imported a token of it. Its token travels as bytes, by whatever
   * way two processes talk. A holder may always wait and read; it may signal if it made the fence or its token was
   * exported with EMU_FENCE_MAY_SIGNAL, which takes a holder that may.
   *
   * A signal raises the counter to `value`; one that is not higher changes nothing. A fence breaks for good when a
   * context that may signal it is lost, or is left behind by a process that ended, when a queue that is lost, reset or
   * destroyed had a signal of it to give, and when no holder is left that may: every wait for a value that was not
   * reached gives EMU_ERROR_FENCE_BROKEN at once. That of a queue loses the queue.
   * A handle goes with its context. Destroy it only after the commands that name it are done: one that comes to it
   * later is EMU_ERROR_ILLEGAL_COMMAND, which loses the context. */
  emu_status (*fence_create)(emu_context*, emu_fence** out);
  emu_status (*fence_export)(emu_fence*, uint32_t flags, emu_fence_token* out);
  emu_status (*fence_import)(emu_context*, const emu_fence_token*, emu_fence** out);
  emu_status (*fence_destroy)(emu_fence*);
  emu_status (*fence_value)(emu_fence*, uint64_t* value);
  emu_status (*fence_signal)(emu_fence*, uint64_t value); /* by the host, at once */
  emu_status (*fence_synchronize)(emu_fence*, uint64_t value, uint64_t timeout_ns); /* as queue_synchronize */
  /* The queue, of the fence's context, signals when it gets here; later commands start only after the fence reached
   * `value`, on the device clock no earlier than the queue's signal that took it there. */
  emu_status (*queue_signal_fence)(emu_queue*, emu_fence*, uint64_t value, uint64_t correlation, uint64_t* sequence);
  emu_status (*queue_wait_fence)(emu_queue*, emu_fence*, uint64_t value, uint64_t correlation, uint64_t* sequence);

  /* Links (docs/queues.md) count from 0; past the last one it is EMU_ERROR_INVALID_ARGUMENT. A link is taken down and
   * up by the user that emud runs as; others get EMU_ERROR_PERMISSION. */
  emu_status (*link_info)(emu_device*, uint32_t index, emu_link_info* out);
  emu_status (*link_set_up)(emu_device*, uint32_t index, int32_t up);
  /* From one context of this process to another, over the link that joins their devices, or within the one device of
   * both. The queue is of either context. Devices without a link of their own are EMU_ERROR_NOT_SUPPORTED: nothing is
   * routed over a third one. A link that is down when the copy gets there is EMU_ERROR_LINK_DOWN, which names it and
   * loses the queue. The copy occupies the queue's engine, the copy engine of the other device and one way of
   * the link from the moment on that all are free. */
  emu_status (*queue_copy_peer)(emu_queue*, emu_context* to_context, uint64_t to, emu_context* from_context,
                                uint64_t from, uint64_t bytes, uint64_t correlation, uint64_t* sequence);

  /* What commands may do with whole pages of the context's memory, of any allocations: EMU_MEMORY_READ,
   * EMU_MEMORY_WRITE, both (as memory_alloc gives them) or 0. It waits for what runs as queue_destroy does; a
   * command that starts later, also of a peer, faults at the first byte that it may not read or write. A range that is
   * not all held is refused and changes nothing. Freeing pages needs no access to them. */
  emu_status (*memory_protect)(emu_context*, uint64_t address, uint64_t bytes, uint32_t access);
} emu_driver_api;

/* The only exported symbol. NULL when the library cannot serve `interface_version` (the caller's
 * EMU_DRIVER_INTERFACE): another major, or a newer minor than the library's. A context that is made by the table for
 * an older minor does what that knows of: before 1.2 a launch that is stopped loses it, and not its queue alone.
 * `error` may be NULL. */
typedef const emu_driver_api* (*emu_driver_get_api_fn)(uint32_t interface_version, emu_error* error);
const emu_driver_api* emu_driver_get_api(uint32_t interface_version, emu_error* error);

#ifdef __cplusplus
}
#endif
#endif
