#include "tools/testbed/topology/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include "absl/status/status.h"
#include "base/text.h"

namespace carillon::testbed {
namespace {

absl::Status OutOfRange(std::string_view text, std::string_view allowed) {
  return absl::InvalidArgumentError(
      fmt::format("{} is out of range; allowed: {}", Quote(text), allowed));
}

// Returns false if it is no decimal number; saturates if it is too large.
bool ParseDecimal(std::string_view text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  if (rest != end || text.empty()) return false;
  if (error == std::errc::result_out_of_range) *number = UINT64_MAX;
  return error == std::errc() || error == std::errc::result_out_of_range;
}

absl::StatusOr<std::string> ReadText(const Key& key, std::string_view text) {
  if (text.size() < key.min || text.size() > key.max) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} characters; allowed: {}", Quote(text),
                    text.size(), AllowedValues(key)));
  }
  if (std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      })) {
    return absl::InvalidArgumentError(
        fmt::format("{} holds a control character", Quote(text)));
  }
  return std::string(text);
}

absl::StatusOr<std::string> ReadChoice(const Key& key, std::string_view text) {
  if (std::find(key.choices.begin(), key.choices.end(), text) !=
      key.choices.end()) {
    return std::string(text);
  }
  const std::string nearest = DidYouMean(text, key.choices);
  return absl::InvalidArgumentError(
      fmt::format("{} is not known{} (allowed: {})", Quote(text), nearest,
                  AllowedValues(key)));
}

absl::StatusOr<std::string> ReadDimensions(const Key& key,
                                           std::string_view text) {
  uint64_t sides[2];
  const size_t x = text.find('x');
  if (x == text.npos || !ParseDecimal(text.substr(0, x), &sides[0]) ||
      !ParseDecimal(text.substr(x + 1), &sides[1])) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not WIDTHxHEIGHT, like 640x480", Quote(text)));
  }
  for (const uint64_t side : sides) {
    if (side < key.min || side > key.max) {
      return OutOfRange(text, AllowedValues(key));
    }
  }
  return std::string(text);
}

absl::StatusOr<uint64_t> ReadNumber(const Key& key, std::string_view text) {
  const auto number = ReadInteger(text, key.min, key.max);
  if (number.ok() && key.power_of_two && !std::has_single_bit(*number)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a power of two; the nearest are {} and {}",
                    *number, std::bit_floor(*number), std::bit_ceil(*number)));
  }
  return number;
}

absl::StatusOr<uint64_t> ReadSize(const Key& key, std::string_view text) {
  const auto bytes = ParseSize(text);
  if (bytes.ok() && (*bytes < key.min || *bytes > key.max)) {
    return OutOfRange(text, AllowedValues(key));
  }
  return bytes;
}

// Makes Setting::number of the value that was read.
template <class T>
absl::StatusOr<Setting> NumberSetting(const Key& key, absl::StatusOr<T> value) {
  if (!value.ok()) return value.status();
  Setting setting;
  setting.key = &key;
  setting.number = *value;
  return setting;
}

absl::StatusOr<Setting> TextSetting(const Key& key,
                                    absl::StatusOr<std::string> value) {
  if (!value.ok()) return value.status();
  Setting setting;
  setting.key = &key;
  setting.text = *std::move(value);
  return setting;
}

}  // namespace

absl::StatusOr<bool> ReadBoolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError(
      fmt::format("{} is neither true nor false", Quote(text)));
}

absl::StatusOr<uint64_t> ReadInteger(std::string_view text, uint64_t min,
                                     uint64_t max) {
  uint64_t number = 0;
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (!ParseDecimal(digits, &number)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is not a whole number; allowed: {} to {}", Quote(text), min, max));
  }
  if (text.starts_with('-') || number < min || number > max) {
    return OutOfRange(text, fmt::format("{} to {}", min, max));
  }
  return number;
}

absl::StatusOr<Setting> ReadSetting(const Key& key, std::string_view text) {
  switch (key.type) {
    case KeyType::kBoolean:
      return NumberSetting(key, ReadBoolean(text));
    case KeyType::kInteger:
      return NumberSetting(key, ReadNumber(key, text));
    case KeyType::kSize:
      return NumberSetting(key, ReadSize(key, text));
    case KeyType::kText:
    case KeyType::kPath:
      return TextSetting(key, ReadText(key, text));
    case KeyType::kChoice:
      return TextSetting(key, ReadChoice(key, text));
    case KeyType::kDimensions:
      return TextSetting(key, ReadDimensions(key, text));
  }
  return absl::InternalError("a key of no type");
}

}  // namespace carillon::testbed
