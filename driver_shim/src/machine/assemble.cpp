/* Text to binary, one line at a time; labels are resolved at the end, and the verifier has the last word. */
#include <cstring>
#include <map>

#include "decimal.h"
#include "encoding.h"
#include "machine.h"
#include "verify.h"

namespace emu::machine {
namespace {

struct Token {
  std::string_view text;
  uint32_t column; /* from 1 */
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/* Blanks part tokens; so does a comma, of which there is at most one between two operands. */
std::vector<Token> tokens_of(std::string_view line) {
  std::vector<Token> out;
  for (size_t i = 0; i < line.size() && line[i] != ';';) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    const size_t start = i;
    if (line[i] == ',') ++i;
    else
      while (i < line.size() && !is_blank(line[i]) && line[i] != ',' && line[i] != ';') ++i;
    out.push_back({line.substr(start, i - start), static_cast<uint32_t>(start + 1)});
  }
  return out;
}

std::optional<uint64_t> parse_digits(std::string_view text, unsigned base) {
  uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    unsigned digit = 99;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A') + 10;
    if (digit >= base || value > (~uint64_t{0} - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x");
  const auto magnitude = hexadecimal ? parse_digits(text.substr(2), 16) : parse_digits(text, 10);
  if (!magnitude || *magnitude > uint64_t{1} << 63 || (!negative && *magnitude == uint64_t{1} << 63))
    return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - *magnitude : *magnitude);
}

class Assembler {
 public:
  explicit Assembler(std::string& why) : why_(why) {
    std::memset(&binary_.header, 0, sizeof binary_.header);
    binary_.header.magic = kMagic;
    binary_.header.version = kVersion;
  }

  bool line(std::string_view text) {
    ++line_;
    const std::vector<Token> tokens = tokens_of(text);
    size_t at = 0;
    while (at < tokens.size()) {
      const Token& token = tokens[at];
      if (token.text.starts_with('.')) {
        if (!directive(tokens, at)) return false;
      } else if (token.text.ends_with(':')) {
        if (!label(token)) return false;
        ++at;
      } else {
        return instruction({tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens.end()});
      }
    }
    return true;
  }

  bool finish() {
    if (binary_.header.lanes == 0)
      return fail(1, "expected `.lanes N` before the first instruction, got the end of the text");
    for (const Reference& reference : references_) {
      const auto found = labels_.find(reference.name);
      line_ = reference.line;
      if (found == labels_.end())
        return fail(reference.column, "expected a label of this program, got " + quoted(reference.name));
      binary_.code[reference.instruction].imm = found->second;
    }
    binary_.header.instructions = static_cast<uint32_t>(binary_.code.size());
    Layout layout;
    const auto refusal = verify(binary_, layout);
    if (!refusal) return true;
    if (binary_.code.empty()) return fail(1, refusal->reason);
    line_ = places_[refusal->instruction].line;
    return fail(places_[refusal->instruction].column, refusal->reason);
  }

  const Binary& binary() const { return binary_; }

 private:
  struct Place {
    uint32_t line, column;
  };
  struct Reference {
    uint32_t instruction;
    std::string name;
    uint32_t line, column;
  };

  bool fail(uint32_t column, const std::string& message) {
    why_ = std::to_string(line_) + ":" + std::to_string(column) + ": " + message;
    return false;
  }

  bool directive(const std::vector<Token>& tokens, size_t& at) {
    const Token& name = tokens[at];
    if (name.text != ".program" && name.text != ".lanes" && name.text != ".args")
      return fail(name.column, "expected .program, .lanes or .args, got " + quoted(name.text));
    if (at + 1 == tokens.size())
      return fail(name.column, "expected a value after " + std::string(name.text) + ", got the end of the line");
    if (!binary_.code.empty())
      return fail(name.column, "expected " + std::string(name.text) + " before the first instruction, got it after");
    const Token& value = tokens[at + 1];
    at += 2;
    return name.text == ".program" ? program_name(value) : number(name, value);
  }

  bool program_name(const Token& token) {
    bool good = token.text.size() < sizeof binary_.header.name;
    for (const char c : token.text) good = good && is_name_character(c);
    if (!good)
      return fail(token.column,
                  "expected a name of up to 63 letters, digits, '_', '.' and '-', got " + quoted(token.text));
    std::memset(binary_.header.name, 0, sizeof binary_.header.name);
    std::memcpy(binary_.header.name, token.text.data(), token.text.size());
    return true;
  }

  bool number(const Token& name, const Token& token) {
    const std::optional<int64_t> value = parse_integer(token.text);
    if (name.text == ".args") {
      if (!value || *value < 0 || *value > kArgsMost)
        return fail(token.column, "expected 0 to " + std::to_string(kArgsMost) + " bytes, got " + quoted(token.text));
      binary_.header.args = static_cast<uint32_t>(*value);
      return true;
    }
    if (!value || *value < kLanesLeast || *value > kLanesMost || (*value & (*value - 1)) != 0)
      return fail(token.column, "expected a power of two from " + std::to_string(kLanesLeast) + " to " +
                                    std::to_string(kLanesMost) + ", got " + quoted(token.text));
    binary_.header.lanes = static_cast<uint32_t>(*value);
    return true;
  }

  bool label(const Token& token) {
    const std::string_view name = token.text.substr(0, token.text.size() - 1);
    bool good = !name.empty();
    for (const char c : name) good = good && is_name_character(c);
    if (!good)
      return fail(token.column, "expected a label of letters, digits, '_', '.' and '-', got " + quoted(token.text));
    if (!labels_.try_emplace(std::string(name), binary_.code.size()).second)
      return fail(token.column, "expected each label once, got " + quoted(name) + " again");
    return true;
  }

  bool instruction(std::vector<Token> tokens) {
    if (binary_.header.lanes == 0)
      return fail(tokens[0].column, "expected `.lanes N` before the first instruction, got " + quoted(tokens[0].text));
    if (binary_.code.size() == kInstructions)
      return fail(tokens[0].column,
                  "expected at most " + std::to_string(kInstructions) + " instructions, got one more");
    Instruction out{};
    std::memset(out.operands, kUnused, sizeof out.operands);
    out.mask = kUnused;
    places_.push_back({line_, tokens[0].column});
    if (tokens[0].text.starts_with('@')) {
      if (!mask(tokens[0], out)) return false;
      if (tokens.size() == 1)
        return fail(tokens[0].column, "expected an instruction after the mask, got the end of the line");
      tokens.erase(tokens.begin());
    }
    const OpInfo* info = operation(tokens[0], out);
    if (info == nullptr) return false;
    if (!operands(*info, tokens, out)) return false;
    binary_.code.push_back(out);
    return true;
  }

  bool mask(const Token& token, Instruction& out) {
    std::string_view text = token.text.substr(1);
    const bool negated = text.starts_with('!');
    if (negated) text.remove_prefix(1);
    const auto r = parse_register(text);
    if (!r || r->register_class != kClassP)
      return fail(token.column,
                  "expected @p0..@p" + std::to_string(kPRegisters - 1) + " or @!p0, got " + quoted(token.text));
    out.mask = static_cast<uint8_t>(r->index | (negated ? kMaskNegated : 0));
    return true;
  }

  const OpInfo* operation(const Token& token, Instruction& out) {
    std::vector<std::string_view> parts;
    for (std::string_view rest = token.text;;) {
      const size_t dot = rest.find('.');
      parts.push_back(rest.substr(0, dot));
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    const OpInfo* info = find_op(parts[0]);
    if (info == nullptr) {
      fail(token.column, "expected an operation of the instruction set, got " + quoted(parts[0]));
      return nullptr;
    }
    out.op = static_cast<uint16_t>(info->op);
    size_t next = 1;
    if (!mode(*info, token, parts, next, out) || !type(info->types, "a type", token, parts, next, out.type) ||
        !type(info->types2, "a second type", token, parts, next, out.type2))
      return nullptr;
    if (next != parts.size()) {
      fail(token.column, "expected nothing more after `" + std::string(info->name) + "`, got " + quoted(parts[next]));
      return nullptr;
    }
    return info;
  }

  bool mode(const OpInfo& info, const Token& token, const std::vector<std::string_view>& parts, size_t& next,
            Instruction& out) {
    if (info.mode_count == 0) return true;
    std::string known;
    for (uint8_t i = 0; i < info.mode_count; ++i) {
      known += " " + std::string(info.modes[i]);
      if (next >= parts.size() || parts[next] != info.modes[i]) continue;
      out.mode = i;
      ++next;
      return true;
    }
    if (info.default_mode < 0)
      return fail(token.column, "expected one of the modes" + known + " in `" + std::string(info.name) +
                                    ".mode`, got " + quoted(token.text));
    out.mode = static_cast<uint8_t>(info.default_mode);
    return true;
  }

  bool type(uint32_t allowed, const char* what, const Token& token, const std::vector<std::string_view>& parts,
            size_t& next, uint8_t& out) {
    if (allowed == 1) return true;
    const TypeInfo* info = next < parts.size() ? find_type(parts[next]) : nullptr;
    if (info == nullptr || (allowed >> static_cast<unsigned>(info->type) & 1u) == 0) {
      std::string names;
      for (const TypeInfo& t : kTypes)
        if ((allowed >> static_cast<unsigned>(t.type) & 1u) != 0) names += " " + std::string(t.name);
      const std::string got = next < parts.size() ? quoted(parts[next]) : "none";
      return fail(token.column, std::string("expected ") + what + " of" + names + ", got " + got);
    }
    out = static_cast<uint8_t>(info->type);
    ++next;
    return true;
  }

  static std::optional<Register> parse_register(std::string_view text) {
    if (text.size() < 2 || text.size() > 3) return std::nullopt;
    for (const uint8_t one : {kClassS, kClassV, kClassP, kClassM}) {
      if (text[0] != letter_of(one)) continue;
      const auto index = parse_digits(text.substr(1), 10);
      if (index && *index < registers_of(one) && (text.size() == 2 || text[1] != '0'))
        return Register{one, static_cast<uint8_t>(*index)};
    }
    return std::nullopt;
  }

  bool operands(const OpInfo& info, const std::vector<Token>& tokens, Instruction& out) {
    uint32_t slot = 0;
    bool after_operand = false;
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i].text == ",") {
        if (!after_operand || i + 1 == tokens.size()) return fail(tokens[i].column, "expected an operand, got ','");
        after_operand = false;
        continue;
      }
      if (slot == info.operand_count)
        return fail(tokens[i].column, "expected " + std::to_string(info.operand_count) +
                                          " operands, got another: " + quoted(tokens[i].text));
      if (!operand(info, slot++, tokens[i], out)) return false;
      after_operand = true;
    }
    if (slot != info.operand_count)
      return fail(tokens[0].column,
                  "expected " + std::to_string(info.operand_count) + " operands, got " + std::to_string(slot));
    return true;
  }

  bool operand(const OpInfo& info, uint32_t slot, const Token& token, Instruction& out) {
    const Operand& expected = info.operands[slot];
    if (expected.form == Form::label) {
      references_.push_back({static_cast<uint32_t>(binary_.code.size()), std::string(token.text), line_, token.column});
      return true;
    }
    if (expected.form == Form::imm) return immediate(info, token, out);
    const auto r = parse_register(token.text);
    if (!r || (r->register_class & expected.classes) == 0) {
      std::string names;
      for (const uint8_t one : {kClassS, kClassV, kClassP, kClassM})
        if ((expected.classes & one) != 0)
          names += (names.empty() ? "" : " or ") + std::string(1, letter_of(one)) + "0.." + letter_of(one) +
                   std::to_string(registers_of(one) - 1);
      return fail(token.column, "expected " + names + ", got " + quoted(token.text));
    }
    out.operands[slot] = encode(*r);
    return true;
  }

  bool immediate(const OpInfo& info, const Token& token, Instruction& out) {
    const TypeInfo* type = find_type(out.type);
    if (info.op == Op::const_ && type->kind == Kind::floating) {
      const std::optional<double> value = parse_decimal(token.text);
      if (!value)
        return fail(token.column, "expected a number such as 1.5, 1e-3, inf or nan, got " + quoted(token.text));
      std::memcpy(&out.imm, &*value, sizeof out.imm);
      return true;
    }
    const std::optional<int64_t> value = parse_integer(token.text);
    if (!value)
      return fail(token.column, "expected a 64-bit integer such as 12, -3 or 0x1f, got " + quoted(token.text));
    out.imm = static_cast<uint64_t>(*value);
    return true;
  }

  std::string& why_;
  Binary binary_;
  uint32_t line_ = 0;
  std::vector<Place> places_; /* by instruction */
  std::vector<Reference> references_;
  std::map<std::string, uint64_t, std::less<>> labels_;
};

}  // namespace

std::optional<std::vector<std::byte>> assemble(std::string_view text, std::string& why) {
  Assembler assembler(why);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (!assembler.line(text.substr(0, end))) return std::nullopt;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (!assembler.finish()) return std::nullopt;
  return join(assembler.binary());
}

}  // namespace emu::machine
