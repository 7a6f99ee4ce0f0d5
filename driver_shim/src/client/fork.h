/* What a fork must not share. A child of a process that has opened a device may not use it:
 * two processes would write to the same rings. The child's copies of the sockets are closed
 * at once, so that emud sees its client go when the client goes. */
#ifndef EMU_CLIENT_FORK_H
#define EMU_CLIENT_FORK_H

namespace emu::client {

void close_in_children(int fd);      // from now on
void keep_in_children(int fd);       // it is about to be closed here
void device_was_opened();            // children made from now on are refused

} // namespace emu::client

#endif
