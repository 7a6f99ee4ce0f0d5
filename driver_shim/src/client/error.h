/* Errors of the client side: thrown as `Error` inside, turned into a status and the calling
 * thread's `last_error` at the interface. */
#ifndef EMU_CLIENT_ERROR_H
#define EMU_CLIENT_ERROR_H

#include <exception>
#include <new>
#include <string>

#include "emu/driver.h"

namespace emu::client {

struct Error : std::exception {
  Error(emu_status status, emu_scope scope, const std::string& cause, const std::string& mend = "");
  explicit Error(const emu_error& error_) : error(error_) {}
  const char* what() const noexcept override { return error.cause; }

  emu_error error{};
};

/* A host call that failed: names it and errno. Who asked may ask again; nothing has to be given up. */
Error host_error(const std::string& call, int number);
Error device_lost_error(int emud);

[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...);

void set_last_error(const emu_error& error);
void get_last_error(emu_error* out);

void refuse_after_fork(); // throws if this process is a fork of one that had opened a device

/* Runs one call of the interface. Nothing is thrown through a C function. */
template <typename Call>
emu_status guarded(Call&& call) noexcept {
  try {
    refuse_after_fork();
    call();
    return EMU_OK;
  } catch (const Error& error) {
    set_last_error(error.error);
    return emu_status(error.error.status);
  } catch (const std::bad_alloc&) {
    set_last_error(Error(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, "no memory on the host").error);
    return EMU_ERROR_HOST;
  } catch (const std::exception& error) {
    set_last_error(Error(EMU_ERROR_HOST, EMU_SCOPE_COMMAND, error.what()).error);
    return EMU_ERROR_HOST;
  }
}

/* `out` may be of an older, shorter layout: its `size`, set by the caller, says so. */
template <typename T>
void give(const T& value, T* out) {
  if (out == nullptr || out->size < sizeof(uint32_t) * 2) {
    throw Error(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                "expected an output struct whose `size` is set to its sizeof, got none");
  }
  const uint32_t size = out->size < sizeof(T) ? out->size : uint32_t(sizeof(T));
  __builtin_memcpy(static_cast<void*>(out), &value, size);
  out->size = size;
}

} // namespace emu::client

#endif
