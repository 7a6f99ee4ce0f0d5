/* Opening devices: one connection for each device of the process, whoever opens it. */
#include <map>

#include "find.h"
#include "fork.h"
#include "objects.h"
#include "stepping.h"

namespace emu::client {
namespace {

struct Opened {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Device>> devices; // by node; "" is the private one
};

Opened& opened() {
  static Opened* const instance = new Opened; // outlives every thread
  return *instance;
}

std::shared_ptr<Device> connect(const std::string& node) {
  device_was_opened();
  auto device = node.empty() ? std::make_shared<Device>(start_private(), "the private emud")
                             : std::make_shared<Device>(connect_node(node), "emud at " + node);
  const auto info = device->connection.fetch<emu_device_info>({uint32_t(RequestKind::device_info), 0, 0, 0, 0, 0});
  device->connection.set_emud(info.emud_pid);
  const constants::Stepping* const stepping = find_stepping(info.stepping);
  device->pads_arguments = stepping == nullptr || stepping->argument_tail;
  return device;
}

} // namespace

Tables& tables() {
  static Tables* const instance = new Tables;
  return *instance;
}

std::shared_ptr<Device> open_device(uint32_t index) {
  const Found found = find_devices();
  if (index >= found.count()) {
    if (found.why_none) throw *found.why_none;
    throw Error(EMU_ERROR_NO_DEVICE, EMU_SCOPE_HOST,
                format("no device %u: this process sees %zu", index, found.count()),
                format("use an index below %zu", found.count()));
  }
  const std::string node = found.start_private ? "" : found.nodes[index];
  const std::lock_guard lock(opened().mutex);
  std::weak_ptr<Device>& slot = opened().devices[node];
  std::shared_ptr<Device> device = slot.lock();
  if (!device || device->connection.is_lost()) {
    device = connect(node);
    slot = device;
  }
  return device;
}

} // namespace emu::client
