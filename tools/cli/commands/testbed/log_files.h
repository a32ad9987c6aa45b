// The logs of a testbed's processes as entries with their times.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_LOG_FILES_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_LOG_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::cli {

// Of whom there are logs in the folder, by name.
std::vector<std::string> LogNames(const std::string& folder);

struct LogEntry {
  std::string process;
  // Without its end. A line beyond LogFile's `max_line` is cut, and says how much
  // of it is missing.
  std::string line;
  // CLOCK_REALTIME and the level, where the line has them.
  std::optional<uint64_t> time_ns;
  std::string level;
  // Where it belongs among others: its own time, or the last one before it, or
  // the next one, or the time at which the file was last written.
  uint64_t order_ns = 0;
};

// Reads NAME.old.log and NAME.log, and then what NAME.log gets.
class LogFile {
 public:
  static constexpr size_t kMaxLine = 16 << 10;
  // A log may be large, so older lines are only in the file.
  static constexpr off_t kMaxRead = 16 << 20;
  // What the entries of one Read() may take, of lines however short.
  static constexpr size_t kMaxKept = 64 << 20;

  LogFile(const std::string& folder, std::string name,
          size_t max_line = kMaxLine);

  const std::string& name() const { return name_; }

  // The lines that were completed since the last call: of those at or after
  // `since_ns` (CLOCK_REALTIME) the last `most`. `with_rest` also takes a line
  // that has no end yet.
  std::vector<LogEntry> Read(uint64_t since_ns, size_t most, bool with_rest);

  // Instead of Read(), for a reader who asks often: the last `most` lines, for
  // which no more than they take is read, and at most `max_read` bytes.
  std::vector<LogEntry> ReadLast(size_t most, off_t max_read);

 private:
  class Collector;

  // How many of the last bytes tell where they are in a rotated log.
  static constexpr size_t kMark = 1024;

  // Reads from offset_ to the file's end.
  void ReadOn(int fd, Collector* collector);
  // Reads what was written between the last Read() and the rotation.
  void ReadRotated(Collector* collector);

  const std::string name_;
  const size_t max_line_;
  const std::string old_path_;
  std::string read_;  // the last bytes that were read, at most kMark
  UniqueFd old_;      // read once
  UniqueFd fd_;
  off_t offset_ = 0;
  std::string unfinished_;  // a line without its end
  uint64_t cut_ = 0;        // how many more bytes it has
  uint64_t last_ns_ = 0;    // the last time in the log
};

// Of several logs, by time; each keeps its own order.
std::vector<LogEntry> MergeByTime(std::vector<std::vector<LogEntry>> logs);

// "10s", "5min", "1.5h": so long before `now_ns`. "2026-11-27 03:19:01.412",
// also with a T, a zone ("+01:00", "Z") or without seconds; "03:19:01": when
// the clock last showed that. Times without a zone are local. Errors:
// InvalidArgument.
absl::StatusOr<uint64_t> ParseSince(const std::string& text, uint64_t now_ns);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_TESTBED_LOG_FILES_H_
