// Threads at the end of the process.
//
// A thread that goes back to Python while the interpreter closes is ended inside a C++ frame, which
// aborts the process. So from a point on, threads other than the main one stay where they are.
#pragma once

#include <functional>

namespace emu {

// Runs `work`, and waits a few seconds for its end: a device that has stopped would keep the process for ever. Then it
// is left, in a thread of its own. The runtime, which closes the device after this, tells the user of it.
void run_for_a_while(const std::function<void()>& work);

// From now on every thread but the caller stays in its next call of `park_here`.
void park_other_threads() noexcept;

// Called where an operator enters and leaves the plugin.
void park_here();

}  // namespace emu
