#include "encoding.h"

#include <cstring>

namespace emu::machine {

const OpInfo* find_op(uint16_t code) {
  for (const OpInfo& info : kOps)
    if (static_cast<uint16_t>(info.op) == code) return &info;
  return nullptr;
}

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& info : kOps)
    if (name == info.name) return &info;
  return nullptr;
}

const TypeInfo* find_type(uint8_t code) {
  for (const TypeInfo& info : kTypes)
    if (static_cast<uint8_t>(info.type) == code) return &info;
  return nullptr;
}

const TypeInfo* find_type(std::string_view name) {
  for (const TypeInfo& info : kTypes)
    if (name == info.name) return &info;
  return nullptr;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

namespace {

bool refuse(std::string& why, std::string reason) {
  why = std::move(reason);
  return false;
}

bool check_name(const char (&name)[64], std::string& why) {
  size_t length = 0;
  while (length < sizeof name && is_name_character(name[length])) ++length;
  for (size_t i = length; i < sizeof name; ++i)
    if (name[i] != 0) return refuse(why, "header: name: expected letters, digits, '_', '.' or '-', then zeros");
  return length < sizeof name || refuse(why, "header: name: expected at most 63 characters");
}

bool check_header(const Header& h, size_t bytes, std::string& why) {
  const auto number = [](uint64_t n) { return std::to_string(n); };
  if (h.magic != kMagic) return refuse(why, "header: magic: expected \"EMUP\", got other bytes");
  if (h.version != kVersion)
    return refuse(why, "header: version: expected " + number(kVersion) + ", got " + number(h.version));
  if (h.lanes < kLanesLeast || h.lanes > kLanesMost || (h.lanes & (h.lanes - 1)) != 0)
    return refuse(why, "header: lanes: expected a power of two from " + number(kLanesLeast) + " to " +
                           number(kLanesMost) + ", got " + number(h.lanes));
  if (h.args > kArgsMost)
    return refuse(why, "header: args: expected at most " + number(kArgsMost) + " bytes, got " + number(h.args));
  if (h.reserved != 0) return refuse(why, "header: reserved: expected 0, got " + number(h.reserved));
  if (h.instructions > kInstructions)
    return refuse(
        why, "header: instructions: expected at most " + number(kInstructions) + ", got " + number(h.instructions));
  const uint64_t expected = kHeaderBytes + uint64_t{h.instructions} * kInstructionBytes;
  if (bytes != expected)
    return refuse(why, "program of " + number(h.instructions) + " instructions: expected " + number(expected) +
                           " bytes, got " + number(bytes));
  return check_name(h.name, why);
}

}  // namespace

std::optional<Binary> split(std::span<const std::byte> bytes, std::string& why) {
  Binary out;
  if (bytes.size() < kHeaderBytes) {
    why = "header: expected " + std::to_string(kHeaderBytes) + " bytes, got " + std::to_string(bytes.size());
    return std::nullopt;
  }
  std::memcpy(&out.header, bytes.data(), sizeof out.header);
  if (!check_header(out.header, bytes.size(), why)) return std::nullopt;
  out.code.resize(out.header.instructions);
  if (!out.code.empty())
    std::memcpy(out.code.data(), bytes.data() + kHeaderBytes, out.code.size() * sizeof(Instruction));
  return out;
}

std::vector<std::byte> join(const Binary& binary) {
  std::vector<std::byte> out(sizeof(Header) + binary.code.size() * sizeof(Instruction));
  std::memcpy(out.data(), &binary.header, sizeof(Header));
  if (!binary.code.empty())
    std::memcpy(out.data() + sizeof(Header), binary.code.data(), binary.code.size() * sizeof(Instruction));
  return out;
}

}  // namespace emu::machine
