#include "tools/testbed/fault_plans/comparison.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/text.h"

namespace carillon::fault {
namespace {

using Kind = Comparison::Kind;

// A longer sign comes before its prefixes.
constexpr std::pair<std::string_view, Kind> kSigns[] = {
    {"!=", Kind::kNotEqual}, {"<=", Kind::kAtMost}, {">=", Kind::kAtLeast},
    {"<", Kind::kLess},      {">", Kind::kMore},    {"=", Kind::kEqual},
};

}  // namespace

absl::StatusOr<Comparison> Comparison::Parse(std::string_view text) {
  if (text == "any") return Comparison();
  std::string_view digits = text;
  Kind kind = Kind::kEqual;
  for (const auto& [sign, meaning] : kSigns) {
    if (!text.starts_with(sign)) continue;
    kind = meaning;
    digits.remove_prefix(sign.size());
    while (digits.starts_with(' ')) digits.remove_prefix(1);
    break;
  }
  uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || rest != end) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is neither a number nor a comparison; write 0, \"> 0\", \"<= 3\" "
        "or any",
        Quote(text)));
  }
  return Comparison(kind, number);
}

bool Comparison::Holds(uint64_t number) const {
  switch (kind_) {
    case Kind::kAny:
      return true;
    case Kind::kEqual:
      return number == number_;
    case Kind::kNotEqual:
      return number != number_;
    case Kind::kLess:
      return number < number_;
    case Kind::kAtMost:
      return number <= number_;
    case Kind::kMore:
      return number > number_;
    case Kind::kAtLeast:
      return number >= number_;
  }
  return false;
}

std::string Comparison::ToString() const {
  if (kind_ == Kind::kAny) return "any";
  if (kind_ == Kind::kEqual) return fmt::format("{}", number_);
  for (const auto& [sign, meaning] : kSigns) {
    if (meaning == kind_) return fmt::format("{} {}", sign, number_);
  }
  return "";
}

}  // namespace carillon::fault
