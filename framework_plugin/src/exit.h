// Threads at the end of the process.
//
// A thread that goes back to Python while the interpreter closes is ended inside a C++ frame, which
// aborts the process. So from a point on, threads other than the main one stay where they are.
#pragma once

namespace emu {

// From now on every thread but the caller stays in its next call of `park_here`.
void park_other_threads() noexcept;

// Called where an operator enters and leaves the plugin.
void park_here();

}  // namespace emu
