/* The control channel between libemudrv and emud.
 *
 * A SOCK_SEQPACKET Unix socket; file descriptors travel as SCM_RIGHTS. The client
 * sends one Hello, emud answers with one Welcome, and both judge the other's
 * interface number before anything else is read. `Hello` and `Welcome` never change
 * their layout, whatever the interface number. After that each Request gets exactly
 * one Reply, in order. Commands do not pass here: they go through the rings (ring.h).
 *
 * All integers are little-endian, as the only supported hosts are. emud trusts no
 * field: a client is hostile until a check says otherwise. */
#ifndef EMU_PROTOCOL_H
#define EMU_PROTOCOL_H

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emu/driver.h"

namespace emu {

constexpr uint64_t kHelloMagic = 0x31764f4c48554d45;   // "EMUHLOv1"
constexpr uint64_t kWelcomeMagic = 0x31764c5757554d45; // "EMUWWLv1"

struct Hello {
  uint64_t magic;
  uint32_t interface_version;
  uint32_t reserved;
};
static_assert(sizeof(Hello) == 16 && std::is_trivially_copyable_v<Hello>);

struct Welcome {
  uint64_t magic;
  uint32_t interface_version;
  int32_t status; // EMU_OK, or why emud will not serve this client
  char cause[256];
};
static_assert(sizeof(Welcome) == 272 && offsetof(Welcome, cause) == 16);

/* A client of one interface number may talk to a device of another if the major is
 * the same and the device's minor is not older: new entries only ever go to the end. */
constexpr bool interfaces_meet(uint32_t client, uint32_t device) {
  return client / 1000 == device / 1000 && client % 1000 <= device % 1000;
}

constexpr uint32_t kErrataInterface = 1002; // clients from here on work around errata (stepping.h)
constexpr uint32_t kQueueLossInterface = 1002; // these know of a queue that is lost alone, and ring again

/* What each request means, and which fields it uses; the others must be zero.
 *   reply: `value` and `count` of Reply, then the payload, then descriptors. */
enum class RequestKind : uint32_t {
  device_info = 1,      //                                    -> payload emu_device_info
  telemetry = 2,        //                                    -> payload emu_telemetry of 1.0, kTelemetryBytes long
  /* object: the interface that whoever makes it was built for, where that is another than libemudrv's; else 0. */
  context_create = 3,   // object, value: which one of its process -> value: context
  context_destroy = 4,  // context
  memory_alloc = 5,     // context, bytes                     -> value: address
  memory_free = 6,      // context, object: address
  memory_info = 7,      // context                            -> payload emu_memory_info
  host_register = 8,    // context, bytes, 1 fd               -> value: buffer
  host_unregister = 9,  // context, object: buffer
  program_load = 10,    // context, bytes, 1 fd               -> value: program, count: bytes of arguments
  program_unload = 11,  // context, object: program
  queue_create = 12,    // context, object: kind, value: priority -> value: queue, count: ring bytes, 2 fds
  queue_destroy = 13,   // context, object: queue
  fault = 14,           // context                            -> payload emu_error
  activity_enable = 15, // context, value: 0 or 1
  activity_read = 16,   // context, value: capacity           -> value: dropped, count, payload emu_activity[count]
  telemetry_more = 17,  //                                    -> payload emu_telemetry, all of it
  power_mode = 18,      // value: index                       -> payload emu_power_mode
  set_power_mode = 19,  // value: index
  firmware_info = 20,   //                                    -> payload emu_firmware_info
  firmware_write = 21,  // object: offset, value: total, bytes, 1 fd
  firmware_activate = 22,
  firmware_rollback = 23,
  device_reset = 24,
  event_read = 25,      // object: after, value: capacity     -> value: dropped, count, payload emu_event[count]
  queue_reset = 26,     // context, object: queue
  queue_fault = 27,     // context, object: queue, value: sequence number -> payload emu_error: why it will not be done
  fault_inject = 28,    // bytes, 1 fd: emu_fault             -> value: number
  fault_clear = 29,     // value: number, or 0
  fault_list = 30,      // value: capacity                    -> count, payload emu_fault[count]
  queue_cancel = 31,    // context, object: queue, or with kCancelRunning, value: from, bytes: to -> value: first
  fence_create = 32,    // context                            -> value: fence, 1 fd: its FencePage
  fence_export = 33,    // context, object: fence, value: 1 to signal -> value, count: token
  fence_import = 34,    // context, object, value: token      -> value: fence, 1 fd
  fence_destroy = 35,   // context, object: fence
  fence_signal = 36,    // context, object: fence, value
  link_info = 37,       // value: index                       -> payload emu_link_info
  link_set_up = 38,     // object: index, value: 0 or 1
  peer_export = 39,     // context                            -> value, count: token
  peer_import = 40,     // context, object, value: token      -> value: peer
  memory_protect = 41,  // context, object: address, value: access, bytes
};
constexpr uint32_t kRequestKinds = 41;
constexpr uint64_t kCancelRunning = uint64_t(1) << 32; // beside the id of a queue

struct Request {
  uint32_t kind;
  uint32_t reserved;
  uint64_t context;
  uint64_t object;
  uint64_t value;
  uint64_t bytes;
};
static_assert(sizeof(Request) == 40 && std::is_trivially_copyable_v<Request>);

struct Reply {
  uint32_t kind; // of the request
  int32_t status;
  int32_t scope;
  uint32_t reserved;
  uint64_t value;
  uint64_t count;
  char cause[384];
  char mend[256];
};
static_assert(sizeof(Reply) == 672 && offsetof(Reply, cause) == 32);

// Payloads are structs of driver.h. A client takes a payload of exactly its size, and one of an older minor is served:
// these numbers stay while the major does, and what is new gets a request of its own.
static_assert(sizeof(emu_error) == 736 && sizeof(emu_device_info) == 488);
constexpr size_t kTelemetryBytes = 152;
static_assert(offsetof(emu_telemetry, spent_matrix_ticks) == kTelemetryBytes && sizeof(emu_memory_info) == 32);
static_assert(sizeof(emu_telemetry) == 344 && sizeof(emu_power_mode) == 48);
static_assert(sizeof(emu_link_info) == 96);
static_assert(sizeof(emu_activity) == 152 && sizeof(emu_timestamp) == 16);
static_assert(sizeof(emu_firmware_slot) == 276 && sizeof(emu_firmware_info) == 608 && sizeof(emu_event) == 224);
static_assert(sizeof(emu_fault) == 64);

constexpr size_t kMaxPayload = 64 * 1024;
constexpr size_t kMaxMessage = sizeof(Reply) + kMaxPayload;
constexpr size_t kActivityBatch = kMaxPayload / sizeof(emu_activity);
constexpr size_t kEventBatch = kMaxPayload / sizeof(emu_event);
constexpr uint64_t kMaxFirmwareChunk = 1 << 20;
constexpr uint64_t kMaxProgramBytes = 24ull * 65536; // the verifier's bound on instructions

} // namespace emu

#endif
