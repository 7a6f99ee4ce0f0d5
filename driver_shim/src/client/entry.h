/* What the entries of the interface's table have in common. */
#ifndef EMU_CLIENT_ENTRY_H
#define EMU_CLIENT_ENTRY_H

#include <string>

#include "objects.h"

namespace emu::client {

inline void require(bool holds, const char* expected) {
  if (!holds) throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND, std::string("expected ") + expected);
}

template <typename T>
T& output(T* out) {
  require(out != nullptr, "a place for the result, got a null pointer");
  return *out;
}

/* A request that is about the device and no context of it. */
inline Request of_device(RequestKind kind, uint64_t object = 0, uint64_t value = 0, uint64_t bytes = 0) {
  return {uint32_t(kind), 0, 0, object, value, bytes};
}

template <typename T>
void give_from(emu_device* device, RequestKind kind, T* out, uint64_t value = 0) {
  give(tables().devices.get(device)->connection.fetch<T>(of_device(kind, 0, value)), out);
}

inline Command command_of(CommandKind kind, uint64_t correlation) {
  Command command{};
  command.kind = uint32_t(kind);
  command.correlation = correlation;
  return command;
}

/* Submits to the queue what `fill` completes. */
template <typename Fill>
emu_status submit(emu_queue* queue, CommandKind kind, uint64_t correlation, uint64_t* sequence, const Fill& fill) {
  return guarded([&] {
    const auto to = tables().queues.get(queue);
    Command command = command_of(kind, correlation);
    fill(*to, command);
    const uint64_t number = to->submit(command);
    if (sequence != nullptr) *sequence = number;
  });
}

/* `wait`: false when the time is up. */
template <typename Wait>
emu_status synchronize(const Wait& wait) {
  bool done = false;
  const emu_status status = guarded([&] { done = wait(); });
  if (status != EMU_OK || done) return status;
  // Not thrown: polling is no exception.
  static const Error timeout(EMU_ERROR_TIMEOUT, EMU_SCOPE_COMMAND, "the wait ended before the work did, which goes on",
                             "wait again");
  set_last_error(timeout.error);
  return EMU_ERROR_TIMEOUT;
}

} // namespace emu::client

#endif
