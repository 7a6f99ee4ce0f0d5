// What a call that fails throws inside the library. The boundary (api.cpp) catches
// it, keeps it for `last_error` of the calling thread and returns its status.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "emu/driver.h"
#include "emu/runtime.h"

namespace emurt {

inline constexpr uint64_t kNoStream = UINT64_MAX;

class Failure : public std::exception {
 public:
  explicit Failure(const emurt_error& error) : error_(error) {}
  const emurt_error& error() const { return error_; }
  const char* what() const noexcept override { return error_.cause; }

 private:
  emurt_error error_;
};

// printf into a string.
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

emurt_error make_error(int32_t status, int32_t scope, int32_t device, const std::string& cause,
                       const std::string& mend);

// Throws a failure of the smallest scope: the call had no effect.
[[noreturn]] void fail(int32_t status, int32_t device, const std::string& cause, const std::string& mend);

const char* status_name(int32_t status);

}  // namespace emurt
