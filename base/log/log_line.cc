#include "base/log/log_line.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

namespace carillon {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// spdlog's.
constexpr std::array<std::string_view, 6> kLevels = {
    "trace", "debug", "info", "warning", "error", "critical"};

// Takes `digits` digits and the character behind them. Nothing if they are not
// there, or the number is above `most`.
std::optional<int64_t> TakeNumber(std::string_view* text, size_t digits,
                                  int64_t most, char behind) {
  if (text->size() <= digits || (*text)[digits] != behind) return {};
  int64_t number = 0;
  for (const char c : text->substr(0, digits)) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + (c - '0');
  }
  if (number > most) return {};
  text->remove_prefix(digits + 1);
  return number;
}

std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(word.size() + 1, text->size()));
  return word;
}

}  // namespace

uint64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond +
         static_cast<uint64_t>(now.tv_nsec);
}

std::string FormatLogTime(uint64_t time_ns, int digits) {
  const auto seconds = static_cast<time_t>(time_ns / kSecond);
  tm local{};
  localtime_r(&seconds, &local);
  const std::string fraction = fmt::format("{:09}", time_ns % kSecond);
  const long minutes = local.tm_gmtoff / 60;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{}{}{:02}:{:02}",
                     local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
                     local.tm_hour, local.tm_min, local.tm_sec,
                     fraction.substr(0, static_cast<size_t>(digits)),
                     minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                     std::abs(minutes) % 60);
}

std::string FormatLogLine(std::string_view process, std::string_view level,
                          std::string_view text) {
  return fmt::format("{} {} {} {}", FormatLogTime(RealtimeNs()), process, level,
                     text);
}

std::optional<LogLine> ParseLogLine(std::string_view line) {
  using std::chrono::day;
  using std::chrono::month;
  using std::chrono::sys_days;
  using std::chrono::year;
  const auto years = TakeNumber(&line, 4, 9999, '-');
  const auto months = years ? TakeNumber(&line, 2, 12, '-') : years;
  const auto days = months ? TakeNumber(&line, 2, 31, ' ') : months;
  const auto hours = days ? TakeNumber(&line, 2, 23, ':') : days;
  const auto minutes = hours ? TakeNumber(&line, 2, 59, ':') : hours;
  const auto seconds = minutes ? TakeNumber(&line, 2, 60, '.') : minutes;
  // The sign of the distance ends the milliseconds.
  if (!seconds || line.size() < 4) return {};
  const char sign = line[3];
  if (sign != '+' && sign != '-') return {};
  const auto milliseconds = TakeNumber(&line, 3, 999, sign);
  const auto ahead_hours =
      milliseconds ? TakeNumber(&line, 2, 23, ':') : milliseconds;
  const auto ahead_minutes =
      ahead_hours ? TakeNumber(&line, 2, 59, ' ') : ahead_hours;
  if (!ahead_minutes) return {};
  const std::chrono::year_month_day date(year(static_cast<int>(*years)),
                                         month(static_cast<unsigned>(*months)),
                                         day(static_cast<unsigned>(*days)));
  if (!date.ok()) return {};
  const int64_t ahead = (*ahead_hours * 60 + *ahead_minutes) * 60;
  const int64_t since_1970 = sys_days(date).time_since_epoch().count() * 86400 +
                             *hours * 3600 + *minutes * 60 + *seconds -
                             (sign == '+' ? ahead : -ahead);
  // What a clock can say in 64 bits.
  if (since_1970 < 0 || since_1970 > INT64_MAX / 1'000'000'000) return {};
  LogLine parsed{.time_ns = static_cast<uint64_t>(since_1970) * kSecond +
                            static_cast<uint64_t>(*milliseconds) * 1'000'000,
                 .process = TakeWord(&line),
                 .level = TakeWord(&line)};
  if (parsed.process.empty() ||
      std::ranges::find(kLevels, parsed.level) == kLevels.end()) {
    return {};
  }
  return parsed;
}

}  // namespace carillon
