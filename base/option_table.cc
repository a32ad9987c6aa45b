#include "base/option_table.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "base/text.h"

namespace carillon {
namespace {

absl::Status OutOfRange(std::string_view text, std::string_view allowed) {
  return absl::InvalidArgumentError(
      fmt::format("{} is out of range; allowed: {}", Quote(text), allowed));
}

// Returns false if it is no whole number; saturates, and says so, if it is too
// large.
bool ParseWhole(std::string_view text, uint64_t* number,
                bool* too_large = nullptr) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  if (rest != end || text.empty()) return false;
  if (error == std::errc()) return true;
  if (error != std::errc::result_out_of_range) return false;
  *number = UINT64_MAX;
  if (too_large != nullptr) *too_large = true;
  return true;
}

bool InRange(const Option& option, uint64_t number) {
  return (number >= option.min && number <= option.max) ||
         (option.or_zero && number == 0);
}

absl::StatusOr<uint64_t> ReadWhole(std::string_view text,
                                   std::string_view allowed) {
  uint64_t number = 0;
  const bool negative = text.starts_with('-');
  bool too_large = false;
  if (!ParseWhole(negative ? text.substr(1) : text, &number, &too_large)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is not a whole number; allowed: {}", Quote(text), allowed));
  }
  if (negative || too_large) return OutOfRange(text, allowed);
  return number;
}

absl::StatusOr<uint64_t> ReadNumber(const Option& option,
                                    std::string_view text) {
  const std::string allowed = AllowedValues(option);
  ASSIGN_OR_RETURN(const uint64_t number, option.type == OptionType::kSize
                                              ? ParseSize(text)
                                              : ReadWhole(text, allowed));
  if (!InRange(option, number)) return OutOfRange(text, allowed);
  if (option.power_of_two && !std::has_single_bit(number)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a power of two; the nearest are {} and {}",
                    number, std::bit_floor(number), std::bit_ceil(number)));
  }
  return number;
}

absl::Status CheckWords(const Option& option, std::string_view text) {
  if (text.size() < option.min || text.size() > option.max) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} characters; allowed: {} to {} characters",
                    Quote(text), text.size(), option.min, option.max));
  }
  if (std::any_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return absl::InvalidArgumentError(
        fmt::format("{} holds a control character", Quote(text)));
  }
  return absl::OkStatus();
}

absl::Status CheckChoice(const Option& option, std::string_view text) {
  if (std::find(option.choices.begin(), option.choices.end(), text) !=
      option.choices.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is not known{} (allowed: {})", Quote(text),
                  DidYouMean(text, option.choices), AllowedValues(option)));
}

absl::Status CheckDimensions(const Option& option, std::string_view text) {
  uint64_t sides[2];
  const size_t x = text.find('x');
  if (x == text.npos || !ParseWhole(text.substr(0, x), &sides[0]) ||
      !ParseWhole(text.substr(x + 1), &sides[1])) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not WIDTHxHEIGHT, like 640x480", Quote(text)));
  }
  for (const uint64_t side : sides) {
    if (!InRange(option, side)) return OutOfRange(text, AllowedValues(option));
  }
  return absl::OkStatus();
}

absl::Status CheckText(const Option& option, std::string_view text) {
  switch (option.type) {
    case OptionType::kDecimal:
      return ReadDecimal(text, static_cast<double>(option.min),
                         static_cast<double>(option.max))
          .status();
    case OptionType::kChoice:
      return CheckChoice(option, text);
    case OptionType::kDimensions:
      return CheckDimensions(option, text);
    default:
      return CheckWords(option, text);
  }
}

bool IsNumber(OptionType type) {
  return type == OptionType::kInteger || type == OptionType::kSize ||
         type == OptionType::kBoolean;
}

}  // namespace

Option BooleanOption(std::string_view flag, std::string_view key, bool* field,
                     std::string_view help) {
  return {.flag = flag,
          .key = key,
          .type = OptionType::kBoolean,
          .field = field,
          .help = help};
}

Option IntegerOption(std::string_view flag, std::string_view key,
                     OptionField field, uint64_t min, uint64_t max,
                     std::string_view help) {
  return {.flag = flag,
          .key = key,
          .type = OptionType::kInteger,
          .field = field,
          .min = min,
          .max = max,
          .help = help};
}

Option ChoiceOption(std::string_view flag, std::string_view key,
                    std::string* field, std::vector<std::string_view> choices,
                    std::string_view help) {
  return {.flag = flag,
          .key = key,
          .type = OptionType::kChoice,
          .field = field,
          .choices = std::move(choices),
          .help = help};
}

Option PathOption(std::string_view flag, std::string_view key,
                  std::string* field, std::string_view help) {
  return {.flag = flag,
          .key = key,
          .type = OptionType::kPath,
          .field = field,
          .min = 1,
          .max = 4096,
          .default_means = "none",
          .help = help};
}

std::string AllowedValues(const Option& option) {
  const std::string_view prefix = option.or_zero        ? "0, or "
                                  : option.power_of_two ? "a power of two, "
                                                        : "";
  switch (option.type) {
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kInteger:
    case OptionType::kDecimal:
      return fmt::format("{}{} to {}", prefix, option.min, option.max);
    case OptionType::kSize:
      return fmt::format("{}{} to {}", prefix, FormatExactSize(option.min),
                         FormatExactSize(option.max));
    case OptionType::kText:
      return fmt::format("{} to {} characters", option.min, option.max);
    case OptionType::kPath:
      return option.choices.empty()
                 ? "a path"
                 : fmt::format("{} or a path", fmt::join(option.choices, ", "));
    case OptionType::kChoice:
      return fmt::format("{}", fmt::join(option.choices, ", "));
    case OptionType::kDimensions:
      return fmt::format("WIDTHxHEIGHT, each {} to {}", option.min, option.max);
  }
  return "";
}

std::string DefaultOf(const Option& option) {
  return option.default_means.empty() ? ValueOf(option)
                                      : std::string(option.default_means);
}

std::string ValueOf(const Option& option) {
  return std::visit(
      [&](const auto& field) -> std::string {
        using Field = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, std::monostate>) {
          return "";
        } else if constexpr (std::is_integral_v<std::remove_pointer_t<Field>> &&
                             !std::is_same_v<Field, bool*>) {
          return option.type == OptionType::kSize
                     ? FormatExactSize(*field)
                     : fmt::format("{}", *field / option.unit);
        } else {
          return fmt::format("{}", *field);
        }
      },
      option.field);
}

std::vector<std::string> Setting::ToFlags() const {
  if (option->type == OptionType::kBoolean) {
    if (number == 0) return {};
    return {std::string(option->flag)};
  }
  return {IsNumber(option->type) ? fmt::format("{}={}", option->flag, number)
                                 : fmt::format("{}={}", option->flag, text)};
}

absl::StatusOr<Setting> ReadSetting(const Option& option,
                                    std::string_view text) {
  Setting setting{.option = &option};
  if (option.type == OptionType::kBoolean) {
    ASSIGN_OR_RETURN(setting.number, ReadBoolean(text));
  } else if (IsNumber(option.type)) {
    ASSIGN_OR_RETURN(setting.number, ReadNumber(option, text));
  } else {
    RETURN_IF_ERROR(CheckText(option, text));
    setting.text = text;
  }
  return setting;
}

void Store(const Setting& setting, const Option& option) {
  std::visit(
      [&](const auto& to) {
        using Field = std::decay_t<decltype(to)>;
        if constexpr (std::is_same_v<Field, std::string*>) {
          *to = setting.text;
        } else if constexpr (std::is_same_v<Field, double*>) {
          std::from_chars(setting.text.data(),
                          setting.text.data() + setting.text.size(), *to);
        } else if constexpr (!std::is_same_v<Field, std::monostate>) {
          *to = static_cast<std::remove_pointer_t<Field>>(setting.number *
                                                          option.unit);
        }
      },
      option.field);
}

absl::Status CheckLowerMaxima(std::span<const Option> table) {
  const auto value_of = [&](std::string_view key) {
    const auto other =
        std::find_if(table.begin(), table.end(),
                     [&](const Option& one) { return one.key == key; });
    return other == table.end() ? "" : ValueOf(*other);
  };
  for (const Option& option : table) {
    for (const LowerMax& limit : option.lower_max) {
      if (value_of(limit.key) != limit.value) continue;
      const std::string value = ValueOf(option);
      if (ReadInteger(value, option.min, limit.max).ok()) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: '{}' is out of range with {} {}; allowed: {} to {}", option.flag,
          value, limit.key, limit.value, option.min, limit.max));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReadInteger(std::string_view text, uint64_t min,
                                     uint64_t max) {
  return ReadNumber(IntegerOption("", "", {}, min, max, ""), text);
}

absl::StatusOr<double> ReadDecimal(std::string_view text, double min,
                                   double max) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool too_large = error == std::errc::result_out_of_range;
  if (rest != end || (error != std::errc() && !too_large) ||
      std::isnan(number)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is not a number; allowed: {} to {}", Quote(text), min, max));
  }
  if (too_large || number < min || number > max) {
    return OutOfRange(text, fmt::format("{} to {}", min, max));
  }
  return number;
}

absl::StatusOr<bool> ReadBoolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError(
      fmt::format("{} is neither true nor false", Quote(text)));
}

}  // namespace carillon
