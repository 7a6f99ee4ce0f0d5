// What happens to an operator without a device program: the policy and its counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emu {

enum class FallbackPolicy { error, warn, allow };

// `text` is error, warn or allow; false for anything else.
bool set_fallback_policy(const std::string& text);
const char* fallback_policy() noexcept;

std::vector<std::pair<std::string, uint64_t>> fallback_counts();
void reset_fallback_counts();

}  // namespace emu
