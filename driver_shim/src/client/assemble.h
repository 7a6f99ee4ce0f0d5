/* Assembler and disassembler of the device's machine code; they need no device. */
#ifndef EMU_CLIENT_ASSEMBLE_H
#define EMU_CLIENT_ASSEMBLE_H

#include <cstddef>

#include "emu/driver.h"

namespace emu::client {

emu_buffer assemble(const char* text, size_t bytes);        // throws BAD_PROGRAM with line and column
emu_buffer disassemble(const void* binary, size_t bytes);   // throws BAD_PROGRAM
void release(emu_buffer* buffer);

} // namespace emu::client

#endif
