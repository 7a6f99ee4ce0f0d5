/* Entries of the table about what contexts share: fences, links and copies between peers. */
#ifndef EMU_CLIENT_SHARING_H
#define EMU_CLIENT_SHARING_H

#include "emu/driver.h"

namespace emu::client {

emu_status fence_create(emu_context* context, emu_fence** out);
emu_status fence_export(emu_fence* fence, uint32_t flags, emu_fence_token* out);
emu_status fence_import(emu_context* context, const emu_fence_token* token, emu_fence** out);
emu_status fence_destroy(emu_fence* fence);
emu_status fence_value(emu_fence* fence, uint64_t* value);
emu_status fence_signal(emu_fence* fence, uint64_t value);
emu_status fence_synchronize(emu_fence* fence, uint64_t value, uint64_t timeout_ns);
emu_status queue_signal_fence(emu_queue* queue, emu_fence* fence, uint64_t value, uint64_t correlation,
                              uint64_t* sequence);
emu_status queue_wait_fence(emu_queue* queue, emu_fence* fence, uint64_t value, uint64_t correlation,
                            uint64_t* sequence);
emu_status link_info(emu_device* device, uint32_t index, emu_link_info* out);
emu_status link_set_up(emu_device* device, uint32_t index, int32_t up);
emu_status queue_copy_peer(emu_queue* queue, emu_context* to_context, uint64_t to, emu_context* from_context,
                           uint64_t from, uint64_t bytes, uint64_t correlation, uint64_t* sequence);

} // namespace emu::client

#endif
