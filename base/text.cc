#include "base/text.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "absl/status/status.h"
#include "base/edit_distance.h"

namespace carillon {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"TiB", uint64_t{1} << 40},
    {"GiB", uint64_t{1} << 30},
    {"MiB", uint64_t{1} << 20},
    {"KiB", uint64_t{1} << 10},
    {"B", 1},
    // Never written, but read: what people type on a command line.
    {"T", uint64_t{1} << 40},
    {"G", uint64_t{1} << 30},
    {"M", uint64_t{1} << 20},
    {"K", uint64_t{1} << 10},
};

struct TimeUnit {
  std::string_view name;
  uint64_t ns;
};

constexpr TimeUnit kTimeUnits[] = {
    {"h", 3'600'000'000'000}, {"min", 60'000'000'000}, {"s", 1'000'000'000},
    {"ms", 1'000'000},        {"us", 1'000},           {"ns", 1},
};
constexpr uint64_t kMaxDuration = uint64_t{24} * 3600 * 1'000'000'000;

constexpr size_t kQuotedCharacters = 60;

// Length of the UTF-8 sequence that `text` starts with; 0 if it is none or a
// control character.
size_t PrintableLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t length = byte(0) >= 0xc2 && byte(0) < 0xe0   ? 2
                        : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // U+0080 to U+009F are controls to a terminal.
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return 0;
  return length;
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) {
    return absl::InvalidArgumentError(
        fmt::format("{} is more than 64 bits hold", Quote(text)));
  }
  const std::string bad = fmt::format(
      "{} is not a size; write a number with KiB, MiB, GiB or TiB, "
      "like 64MiB",
      Quote(text));
  if (error != std::errc()) return absl::InvalidArgumentError(bad);
  std::string_view unit(rest, end - rest);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty()) return number;
  for (const Unit& candidate : kUnits) {
    if (candidate.name != unit) continue;
    if (number > std::numeric_limits<uint64_t>::max() / candidate.bytes) {
      return absl::InvalidArgumentError(
          fmt::format("{} is more than 64 bits hold", Quote(text)));
    }
    return number * candidate.bytes;
  }
  return absl::InvalidArgumentError(bad);
}

absl::StatusOr<uint64_t> ParseDuration(std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      fmt::format("{} is not a duration of at most a day; write a number with "
                  "ns, us, ms, s, min or h, like 500ms",
                  Quote(text)));
  if (text == "0") return 0;
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number > kMaxDuration) return bad;
  // Digits behind the point, exactly: 1.5 is 15 tenths.
  unsigned __int128 digits = number;
  uint64_t scale = 1;
  if (rest != end && *rest == '.') {
    const char* const point = rest++;
    for (; rest != end && *rest >= '0' && *rest <= '9'; ++rest) {
      if (scale >= 1'000'000'000) return bad;
      scale *= 10;
      digits = digits * 10 + static_cast<uint64_t>(*rest - '0');
    }
    if (rest == point + 1) return bad;
  }
  std::string_view unit(rest, end - rest);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const TimeUnit& candidate : kTimeUnits) {
    if (candidate.name != unit) continue;
    const unsigned __int128 ns = digits * candidate.ns;
    if (ns % scale != 0 || ns / scale > kMaxDuration) return bad;
    return static_cast<uint64_t>(ns / scale);
  }
  return bad;
}

std::string FormatExactDuration(uint64_t ns) {
  if (ns == 0) return "0";
  for (const TimeUnit& unit : kTimeUnits) {
    if (ns % unit.ns == 0) return fmt::format("{}{}", ns / unit.ns, unit.name);
  }
  return "";
}

std::string FormatBytes(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    if (bytes % unit.bytes == 0) {
      return fmt::format("{} {}", bytes / unit.bytes, unit.name);
    }
    return fmt::format("{:.1f} {}", static_cast<double>(bytes) / unit.bytes,
                       unit.name);
  }
  return "0 B";
}

std::string FormatExactSize(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (unit.bytes > 1 && bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}", bytes);
}

std::string FormatNanoseconds(uint64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  double value = static_cast<double>(ns) / 1e3;
  const char* unit = "us";
  // Rounded to three digits, 999.6 us is 1.00 ms.
  if (value >= 999.5) {
    value /= 1e3;
    unit = "ms";
  }
  if (value >= 999.5) {
    value /= 1e3;
    unit = "s";
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string FormatAge(uint64_t ns) {
  const uint64_t seconds = ns / 1'000'000'000;
  const uint64_t minutes = seconds / 60;
  const uint64_t hours = minutes / 60;
  if (minutes == 0) return fmt::format("{} s", seconds);
  if (hours == 0) return fmt::format("{} min {} s", minutes, seconds % 60);
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string FormatCount(uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string FormatPlural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string FormatSeconds(uint64_t ns) {
  return fmt::format("{:.2f} s", static_cast<double>(ns) / 1e9);
}

std::string EscapeBytes(std::string_view text,
                        bool (*is_unsafe)(unsigned char)) {
  std::string escaped;
  for (const unsigned char byte : text) {
    if (is_unsafe(byte)) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else {
      escaped += static_cast<char>(byte);
    }
  }
  return escaped;
}

std::string Quote(std::string_view text) {
  std::string quoted = "'";
  size_t characters = 0;
  while (!text.empty()) {
    if (++characters > kQuotedCharacters) {
      quoted += "...";
      break;
    }
    if (const size_t length = PrintableLength(text); length > 0) {
      quoted += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
    }
  }
  return quoted + "'";
}

std::string JoinWords(std::span<const std::string> words) {
  if (words.empty()) return "nothing";
  std::string joined = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    joined += i + 1 == words.size() ? " and " : ", ";
    joined += words[i];
  }
  return joined;
}

std::string DidYouMean(std::string_view name,
                       const std::vector<std::string_view>& candidates,
                       std::string_view otherwise) {
  const std::string_view nearest = NearestName(name, candidates);
  if (nearest.empty()) return std::string(otherwise);
  return fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace carillon
