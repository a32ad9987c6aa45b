// The lines that the processes of a testbed write to their logs:
//
//   2026-11-27 03:19:01.412+01:00 nic0 info serving on udp 127.0.0.1:11211
//
// the local time with its distance from UTC, the process, the level, the text.
// What a process writes past its logger (a device of one's own, a crash) is a
// line without these.
#ifndef CARILLON_BASE_LOG_LOG_LINE_H_
#define CARILLON_BASE_LOG_LOG_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carillon {

// The same for spdlog.
inline constexpr char kLogPattern[] = "%Y-%m-%d %H:%M:%S.%e%z %n %^%l%$ %v";

// CLOCK_REALTIME, nanoseconds.
uint64_t RealtimeNs();

// `time_ns` (CLOCK_REALTIME) as the line's first two words; `digits` (0 to 9) of
// a second's fraction.
std::string FormatLogTime(uint64_t time_ns, int digits = 3);

// The line that a process writes now, without its end.
std::string FormatLogLine(std::string_view process, std::string_view level,
                          std::string_view text);

struct LogLine {
  uint64_t time_ns = 0;  // CLOCK_REALTIME
  std::string_view process;
  std::string_view level;
};

// Nothing for a line without a time, a process and a known level at its
// beginning. Refers to `line`.
std::optional<LogLine> ParseLogLine(std::string_view line);

}  // namespace carillon

#endif  // CARILLON_BASE_LOG_LOG_LINE_H_
