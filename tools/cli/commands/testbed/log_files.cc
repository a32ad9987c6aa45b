#include "tools/cli/commands/testbed/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "base/log/log_line.h"
#include "base/text.h"

namespace carillon::cli {
namespace {

UniqueFd Open(const std::string& path) {
  // O_NONBLOCK: a FIFO of that name must not hold the reader.
  return UniqueFd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

uint64_t WrittenNs(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return 0;
  return static_cast<uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(facts.st_mtim.tv_nsec);
}

// Length of the UTF-8 sequence that `text` starts with; 0 if it is none, or
// U+0080 to U+009F, which are controls to a terminal.
size_t SequenceLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (const char c : text.substr(1, length - 1)) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) return 0;
  }
  const bool control =
      first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  return control ? 0 : length;
}

// `time` was read as one of UTC, and is a local one: by libc, as the logs' times
// are made.
absl::Time FromLocal(absl::Time time) {
  const absl::CivilSecond civil =
      absl::ToCivilSecond(time, absl::UTCTimeZone());
  tm local{};
  local.tm_year = static_cast<int>(civil.year() - 1900);
  local.tm_mon = civil.month() - 1;
  local.tm_mday = civil.day();
  local.tm_hour = civil.hour();
  local.tm_min = civil.minute();
  local.tm_sec = civil.second();
  local.tm_isdst = -1;
  return absl::FromTimeT(mktime(&local)) +
         (time - absl::FromCivil(civil, absl::UTCTimeZone()));
}

std::optional<absl::Time> ParseTime(const std::string& text) {
  // absl knows more than times: "infinite-past".
  if (text.empty() || !absl::ascii_isdigit(text[0])) return {};
  for (const char between : {' ', 'T'}) {
    for (const char* const of_day : {"%H:%M", "%H:%M:%E*S"}) {
      for (const char* const of_zone : {"", "%Ez"}) {
        absl::Time time;
        if (!absl::ParseTime(
                fmt::format("%Y-%m-%d{}{}{}", between, of_day, of_zone), text,
                absl::UTCTimeZone(), &time, nullptr)) {
          continue;
        }
        if (*of_zone == '\0') time = FromLocal(time);
        if (time < absl::UnixEpoch() ||
            time >= absl::FromUnixNanos(INT64_MAX)) {
          return {};
        }
        return time;
      }
    }
  }
  return {};
}

}  // namespace

// Makes entries of lines, and keeps the last ones.
class LogFile::Collector {
 public:
  Collector(LogFile* log, uint64_t since_ns, size_t most)
      : log_(log), since_ns_(since_ns), most_(most) {}

  void Add(std::string line, uint64_t cut) {
    LogEntry entry{.process = log_->name_};
    if (const auto parsed = ParseLogLine(line)) {
      entry.time_ns = parsed->time_ns;
      entry.level = parsed->level;
      if (log_->last_ns_ == 0) OrderUnknown(parsed->time_ns);
      log_->last_ns_ = parsed->time_ns;
    }
    entry.order_ns = log_->last_ns_;
    entry.line = std::move(line);
    if (cut != 0) entry.line += fmt::format("... ({} bytes more)", cut);
    // While no time is known, none can be too old.
    if (entry.order_ns != 0 && entry.order_ns < since_ns_) return;
    kept_.push_back(std::move(entry));
    if (kept_.size() > most_) kept_.pop_front();
  }

  // `written_ns`: when the file was last written.
  std::vector<LogEntry> Take(uint64_t written_ns) {
    OrderUnknown(written_ns);
    return {std::make_move_iterator(kept_.begin()),
            std::make_move_iterator(kept_.end())};
  }

 private:
  // Of the lines before the first time in the log.
  void OrderUnknown(uint64_t time_ns) {
    for (LogEntry& entry : kept_) {
      if (entry.order_ns == 0) entry.order_ns = time_ns;
    }
    std::erase_if(kept_, [&](const LogEntry& entry) {
      return entry.order_ns < since_ns_;
    });
  }

  LogFile* const log_;
  const uint64_t since_ns_;
  const size_t most_;
  std::deque<LogEntry> kept_;
};

LogFile::LogFile(const std::string& folder, std::string name)
    : name_(std::move(name)),
      old_(Open(fmt::format("{}/{}.old.log", folder, name_))),
      fd_(Open(fmt::format("{}/{}.log", folder, name_))) {}

void LogFile::ReadOn(int fd, Collector* collector) {
  std::array<char, 64 << 10> block;
  for (ssize_t got;
       (got = pread(fd, block.data(), block.size(), offset_)) > 0;) {
    offset_ += got;
    std::string_view text(block.data(), static_cast<size_t>(got));
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view part = text.substr(0, end);
      const size_t room = kMaxLine - unfinished_.size();
      unfinished_ += part.substr(0, room);
      cut_ += part.size() - std::min(part.size(), room);
      if (end == text.npos) break;
      collector->Add(std::exchange(unfinished_, ""), std::exchange(cut_, 0));
      text.remove_prefix(end + 1);
    }
  }
}

std::vector<LogEntry> LogFile::Read(uint64_t since_ns, size_t most,
                                    bool with_rest) {
  Collector collector(this, since_ns, most);
  // Begins with the first whole line of the last kMaxRead bytes.
  const auto start = [&](int fd) {
    struct stat facts;
    offset_ = 0;
    if (fstat(fd, &facts) != 0 || facts.st_size <= kMaxRead) return;
    offset_ = facts.st_size - kMaxRead;
    for (char c = 0; c != '\n' && pread(fd, &c, 1, offset_) == 1;) ++offset_;
  };
  if (old_) {
    start(old_.get());
    ReadOn(old_.get(), &collector);
    old_.reset();
    if (fd_) start(fd_.get());
  } else if (offset_ == 0 && fd_) {
    start(fd_.get());
  }
  struct stat facts;
  // Rotated: its beginning is new.
  if (fd_ && fstat(fd_.get(), &facts) == 0 && facts.st_size < offset_) {
    offset_ = 0;
    unfinished_.clear();
    cut_ = 0;
  }
  if (fd_) ReadOn(fd_.get(), &collector);
  if (with_rest && !unfinished_.empty()) {
    collector.Add(std::exchange(unfinished_, ""), std::exchange(cut_, 0));
  }
  return collector.Take(fd_ ? WrittenNs(fd_.get()) : 0);
}

std::vector<LogEntry> MergeByTime(std::vector<std::vector<LogEntry>> logs) {
  // Only one entry of each log is in the queue, so that each keeps its order.
  using Next = std::tuple<uint64_t, size_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto push = [&](size_t log, size_t entry) {
    if (entry < logs[log].size()) {
      next.emplace(logs[log][entry].order_ns, log, entry);
    }
  };
  for (size_t log = 0; log < logs.size(); ++log) push(log, 0);
  std::vector<LogEntry> merged;
  while (!next.empty()) {
    const auto [time, log, entry] = next.top();
    next.pop();
    merged.push_back(std::move(logs[log][entry]));
    push(log, entry + 1);
  }
  return merged;
}

std::string ForTerminal(std::string_view line) {
  std::string shown;
  while (!line.empty()) {
    const auto first = static_cast<unsigned char>(line[0]);
    size_t length = first >= 0x20 && first < 0x7f ? 1 : 0;
    if (first >= 0x80) length = SequenceLength(line);
    if (length > 0) {
      shown += line.substr(0, length);
    } else if (first == '\t') {
      shown += "  ";
    } else {
      shown += fmt::format("\\x{:02x}", first);
    }
    line.remove_prefix(std::max<size_t>(length, 1));
  }
  return shown;
}

absl::StatusOr<uint64_t> ParseSince(const std::string& text, uint64_t now_ns) {
  if (const auto before = ParseDuration(text); before.ok()) {
    return now_ns - std::min(*before, now_ns);
  }
  // "03:19": today's, or yesterday's if that is still to come.
  const bool only_clock = text.find('-') == text.npos;
  for (const time_t days_ago : {0, 1}) {
    const time_t day =
        static_cast<time_t>(now_ns / 1'000'000'000) - days_ago * 24 * 60 * 60;
    tm local{};
    localtime_r(&day, &local);
    const std::string date =
        fmt::format("{:04}-{:02}-{:02} ", local.tm_year + 1900,
                    local.tm_mon + 1, local.tm_mday);
    const auto time = ParseTime(only_clock ? date + text : text);
    if (!time) break;
    const auto time_ns = static_cast<uint64_t>(absl::ToUnixNanos(*time));
    if (!only_clock || time_ns <= now_ns) return time_ns;
  }
  return absl::InvalidArgumentError(fmt::format(
      "--since {}: must be a duration of at most a day (10s, 5min) or a "
      "time (03:19, 03:19:01.5, '2026-11-27 03:19:01', also with a zone: "
      "+01:00)",
      Quote(text)));
}

}  // namespace carillon::cli
