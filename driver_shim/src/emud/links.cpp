#include "links.h"

#include "refusal.h"

namespace emu {

emu_link_info Link::info() const {
  emu_link_info info{};
  info.size = sizeof info;
  info.index = index_;
  info.device[0] = spec_.low;
  info.device[1] = spec_.high;
  info.is_up = up ? 1 : 0;
  info.bytes_per_tick = spec_.bytes_per_tick;
  info.latency_ticks = spec_.latency_ticks;
  info.errors = errors;
  const std::lock_guard lock(mutex);
  for (int way = 0; way < 2; ++way) {
    info.copies[way] = ways_[way].copies;
    info.bytes[way] = ways_[way].bytes;
    info.busy_ticks[way] = ways_[way].busy_ticks;
  }
  return info;
}

Links::Links(uint32_t devices) {
  for (const constants::LinkSpec& spec : constants::kLinks) {
    if (spec.high < devices) links_.emplace_back(uint32_t(links_.size()), spec);
  }
}

Link& Links::at(uint64_t index) {
  if (index < links_.size()) return links_[index];
  throw Refusal(EMU_ERROR_INVALID_ARGUMENT, EMU_SCOPE_COMMAND,
                format("number of a link: expected less than %zu, got %llu", links_.size(),
                       static_cast<unsigned long long>(index)));
}

Link* Links::between(uint32_t one, uint32_t other) {
  for (Link& link : links_) {
    if (link.joins(one, other)) return &link;
  }
  return nullptr;
}

} // namespace emu
