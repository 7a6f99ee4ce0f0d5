#include "assemble.h"

#include <cstdlib>
#include <cstring>

#include "error.h"
#include "machine.h"

namespace emu::client {
namespace {

emu_buffer buffer_of(const void* data, size_t bytes) {
  emu_buffer buffer{std::malloc(bytes + 1), bytes};
  if (buffer.data == nullptr) throw std::bad_alloc();
  std::memcpy(buffer.data, data, bytes);
  static_cast<char*>(buffer.data)[bytes] = '\0'; // text can be printed as it is
  return buffer;
}

Error bad_program(const std::string& why) {
  return Error(EMU_ERROR_BAD_PROGRAM, EMU_SCOPE_COMMAND, why, "see the reference of the instruction set, docs/isa.md");
}

} // namespace

emu_buffer assemble(const char* text, size_t bytes) {
  std::string why;
  const auto binary = machine::assemble({text, bytes}, why);
  if (!binary) throw bad_program(why);
  return buffer_of(binary->data(), binary->size());
}

emu_buffer disassemble(const void* binary, size_t bytes) {
  std::string why;
  const auto text = machine::disassemble({static_cast<const std::byte*>(binary), bytes}, why);
  if (!text) throw bad_program(why);
  return buffer_of(text->data(), text->size());
}

void release(emu_buffer* buffer) {
  if (buffer == nullptr) return;
  std::free(buffer->data);
  *buffer = {nullptr, 0};
}

} // namespace emu::client
