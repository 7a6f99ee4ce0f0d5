#include "decimal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include <limits>

namespace emu::machine {
namespace {

/* The "C" locale for this thread while it lives. */
class PlainNumbers {
 public:
  PlainNumbers() : plain_(newlocale(LC_NUMERIC_MASK, "C", nullptr)), before_(uselocale(plain_)) {}
  ~PlainNumbers() {
    uselocale(before_);
    if (plain_ != nullptr) freelocale(plain_);
  }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;

 private:
  locale_t plain_, before_;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  const std::string_view body = text.substr(text.starts_with('-') ? 1 : 0);
  if (body.empty() || body.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  if (!is_digit(body[0]) && body[0] != '.') return std::nullopt;
  const PlainNumbers plain;
  const std::string copy(text);
  char* end = nullptr;
  const double value = strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || value - value != 0) return std::nullopt;
  return value;
}

std::string decimal_text(double value) {
  if (value != value) return "nan";
  const PlainNumbers plain;
  for (int digits = 1;; ++digits) {
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (digits == std::numeric_limits<double>::max_digits10 || strtod(text, nullptr) == value) return text;
  }
}

}  // namespace emu::machine
