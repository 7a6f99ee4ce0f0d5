/* What a command does: checked against the context it came from, run, timed, recorded. */
#ifndef EMU_EXECUTE_H
#define EMU_EXECUTE_H

#include "device.h"

namespace emu {

/* Runs the command at the head of the queue and completes it; a fault loses the context. Gives the device time that it
 * took. The caller holds the context's `running` of this engine. */
uint64_t execute(Device& device, Queue& queue);

} // namespace emu

#endif
