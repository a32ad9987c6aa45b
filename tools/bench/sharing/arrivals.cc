#include "tools/bench/sharing/arrivals.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "base/read_file.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace carillon::bench {
namespace {

constexpr double kMostMicroseconds = 3600e6;
constexpr size_t kMostArrivals = 1'000'000;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

absl::StatusOr<Nanoseconds> ParseTime(std::string_view text) {
  double microseconds = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data(), end, microseconds, std::chars_format::fixed);
  // Not a number is neither below nor above anything.
  if (error != std::errc() || rest != end ||
      !(microseconds >= 0 && microseconds <= kMostMicroseconds)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is no time in microseconds from 0 to an hour", Quote(text)));
  }
  return static_cast<Nanoseconds>(std::llround(microseconds * 1000));
}

}  // namespace

Arrivals UniformArrivals(Nanoseconds gap, Nanoseconds end) {
  Arrivals arrivals;
  for (Nanoseconds at = gap; at < end; at += gap) arrivals.push_back(at);
  return arrivals;
}

Arrivals PoissonArrivals(Nanoseconds mean_gap, Nanoseconds end, uint64_t seed) {
  // The library's distributions are not the same everywhere.
  std::mt19937_64 random(seed);
  Arrivals arrivals;
  double at = 0;
  while (true) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    at -= std::log1p(-uniform) * static_cast<double>(mean_gap);
    if (at >= static_cast<double>(end)) return arrivals;
    arrivals.push_back(static_cast<Nanoseconds>(at));
  }
}

absl::StatusOr<Arrivals> ParseTrace(std::string_view text) {
  Arrivals arrivals;
  size_t number = 0;
  const auto at_line = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("line {}: {}", number, what));
  };
  while (!text.empty()) {
    ++number;
    const size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    line = Trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto time = ParseTime(line);
    if (!time.ok()) return at_line(std::string(time.status().message()));
    if (!arrivals.empty() && *time < arrivals.back()) {
      return at_line(fmt::format("{} comes after {:.3f}: times must ascend",
                                 Quote(line),
                                 static_cast<double>(arrivals.back()) / 1000));
    }
    if (arrivals.size() == kMostArrivals) {
      return at_line(
          fmt::format("more than {} arrivals", FormatCount(kMostArrivals)));
    }
    arrivals.push_back(*time);
  }
  if (arrivals.size() < 2 || arrivals.front() == arrivals.back()) {
    return absl::InvalidArgumentError(
        "a trace has at least two arrivals, not all at once");
  }
  return arrivals;
}

absl::StatusOr<Arrivals> ReadTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const auto text, ReadFile(path, "trace of arrivals"));
  auto arrivals = ParseTrace(text);
  if (arrivals.ok()) return arrivals;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path, std::string(arrivals.status().message())));
}

Arrivals TracedArrivals(const Arrivals& trace, Nanoseconds mean_gap,
                        Nanoseconds end) {
  // A round ends a mean gap behind the last arrival, where the next one begins.
  const auto span = static_cast<double>(trace.back() - trace.front());
  const auto count = static_cast<double>(trace.size());
  const double stretch = static_cast<double>(mean_gap) * (count - 1) / span;
  Arrivals arrivals;
  for (double round = 0;; round += static_cast<double>(mean_gap) * count) {
    for (const Nanoseconds time : trace) {
      const double at =
          round + static_cast<double>(time - trace.front()) * stretch;
      if (at >= static_cast<double>(end)) return arrivals;
      arrivals.push_back(static_cast<Nanoseconds>(at));
    }
  }
}

}  // namespace carillon::bench
