// Words and numbers for people: sizes, durations, counts, quoted input.
#ifndef CARILLON_BASE_TEXT_H_
#define CARILLON_BASE_TEXT_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon {

// "64MiB", "64M", "1 GiB", "4096" (bytes). InvalidArgument: no number, an unknown
// unit, or more than 64 bits.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// "500ms", "1.5 s", "20us", "0": nanoseconds. InvalidArgument: no number, no or
// an unknown unit, a fraction of a nanosecond, or more than a day.
absl::StatusOr<uint64_t> ParseDuration(std::string_view text);
// "500ms" with the largest unit that divides it: what ParseDuration() reads.
std::string FormatExactDuration(uint64_t ns);

// "64 MiB", "1.5 GiB", "512 B": exact for whole units, else one decimal.
std::string FormatBytes(uint64_t bytes);
// "64MiB" when a unit divides it, else the number: what ParseSize() reads.
std::string FormatExactSize(uint64_t bytes);
// "850 ns", "12.3 us", "4.56 ms", "1.20 s"; three significant digits.
std::string FormatNanoseconds(uint64_t ns);
// "3 s", "2 min 5 s", "4 h 12 min", "3 d 2 h": how long something has lasted.
std::string FormatAge(uint64_t ns);
// "1,234,567"
std::string FormatCount(uint64_t count);
// "1 fault", "3 faults"
std::string FormatPlural(uint64_t count, std::string_view noun);
// "0.21 s": for narration.
std::string FormatSeconds(uint64_t ns);
inline std::string FormatSeconds(std::chrono::nanoseconds duration) {
  return FormatSeconds(static_cast<uint64_t>(duration.count()));
}

// `text` with each byte that `is_unsafe` picks written like "\x1b". With
// absl::ascii_iscntrl it is safe for a terminal.
std::string EscapeBytes(std::string_view text,
                        bool (*is_unsafe)(unsigned char));

// Input as it may be shown on a terminal: control bytes and bytes beyond UTF-8
// escaped, cut to 60 characters, in single quotes.
std::string Quote(std::string_view text);

// "a, b and c"; "nothing" for none.
std::string JoinWords(std::span<const std::string> words);

// "; did you mean 'x'?" for the candidate nearest to `name`, else `otherwise`.
std::string DidYouMean(std::string_view name,
                       const std::vector<std::string_view>& candidates,
                       std::string_view otherwise = "");

}  // namespace carillon

#endif  // CARILLON_BASE_TEXT_H_
