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
#include <filesystem>
#include <queue>
#include <system_error>
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

off_t SizeOf(int fd) {
  struct stat facts;
  return fstat(fd, &facts) == 0 ? facts.st_size : 0;
}

uint64_t WrittenNs(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return 0;
  return static_cast<uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(facts.st_mtim.tv_nsec);
}

// Where the last lines of a file begin.
struct Tail {
  off_t start = 0;
  size_t lines = 0;
  bool whole = true;  // `start` is the beginning of a line
};

// Of the last `most` lines, as far as the last `max_read` bytes have them. A last
// line that alone has more than that begins amid it.
Tail FindTail(int fd, size_t most, off_t max_read) {
  const off_t end = SizeOf(fd);
  const off_t limit = end - std::min(end, max_read);
  Tail tail{.start = end};
  if (most == 0 || limit == end) return tail;
  std::array<char, 64 << 10> block;
  for (off_t to = end; to > limit;) {
    const off_t from =
        to - std::min(to - limit, static_cast<off_t>(block.size()));
    const ssize_t got =
        pread(fd, block.data(), static_cast<size_t>(to - from), from);
    if (got != to - from) return tail;  // rotated meanwhile
    std::string_view text(block.data(), static_cast<size_t>(got));
    // The file's last byte ends a line, and begins none.
    if (to == end) text.remove_suffix(1);
    for (size_t at = text.rfind('\n'); at != text.npos; at = text.rfind('\n')) {
      tail.start = from + static_cast<off_t>(at) + 1;
      if (++tail.lines == most) return tail;
      text = text.substr(0, at);
    }
    to = from;
  }
  if (limit == 0 || tail.lines == 0) {
    return {.start = limit, .lines = tail.lines + 1, .whole = limit == 0};
  }
  return tail;
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

std::vector<std::string> LogNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    // NAME.old.log belongs to NAME.
    if (path.extension() == ".log" && path.stem().extension() != ".old") {
      names.push_back(path.stem());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

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
    bytes_ += BytesOf(entry);
    kept_.push_back(std::move(entry));
    while (kept_.size() > most_ || bytes_ > kMaxKept) {
      bytes_ -= BytesOf(kept_.front());
      kept_.pop_front();
    }
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
      if (entry.order_ns >= since_ns_) return false;
      bytes_ -= BytesOf(entry);
      return true;
    });
  }

  static size_t BytesOf(const LogEntry& entry) {
    return sizeof(LogEntry) + entry.line.size();
  }

  LogFile* const log_;
  const uint64_t since_ns_;
  const size_t most_;
  std::deque<LogEntry> kept_;
  size_t bytes_ = 0;
};

LogFile::LogFile(const std::string& folder, std::string name, size_t max_line)
    : name_(std::move(name)),
      max_line_(max_line),
      old_path_(fmt::format("{}/{}.old.log", folder, name_)),
      old_(Open(old_path_)),
      fd_(Open(fmt::format("{}/{}.log", folder, name_))) {}

void LogFile::ReadOn(int fd, Collector* collector) {
  // Not beyond its end now: who writes fast must not hold the reader.
  const off_t end = SizeOf(fd);
  std::array<char, 64 << 10> block;
  while (offset_ < end) {
    const ssize_t got = pread(
        fd, block.data(),
        std::min(block.size(), static_cast<size_t>(end - offset_)), offset_);
    if (got <= 0) break;
    offset_ += got;
    std::string_view text(block.data(), static_cast<size_t>(got));
    read_ += text;
    if (read_.size() > kMark) read_.erase(0, read_.size() - kMark);
    while (!text.empty()) {
      const size_t line_end = text.find('\n');
      const std::string_view part = text.substr(0, line_end);
      const size_t room = max_line_ - std::min(max_line_, unfinished_.size());
      unfinished_ += part.substr(0, room);
      cut_ += part.size() - std::min(part.size(), room);
      if (line_end == text.npos) break;
      collector->Add(std::exchange(unfinished_, ""), std::exchange(cut_, 0));
      text.remove_prefix(line_end + 1);
    }
  }
}

void LogFile::ReadRotated(Collector* collector) {
  const UniqueFd old = Open(old_path_);
  const off_t size = old ? std::min(SizeOf(old.get()), kMaxRead) : 0;
  std::string text(static_cast<size_t>(size), '\0');
  const ssize_t got = pread(old.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  size_t mark = text.npos;
  if (offset_ > static_cast<off_t>(read_.size())) {
    mark = text.rfind(read_);
  } else if (text.starts_with(read_)) {
    mark = 0;
  }
  if (mark != text.npos) {
    offset_ = static_cast<off_t>(mark + read_.size());
  } else {
    // More was written than is kept, or nothing is: from the first whole line.
    unfinished_.clear();
    cut_ = 0;
    const size_t end = text.find('\n');
    offset_ = static_cast<off_t>(end == text.npos ? text.size() : end + 1);
  }
  if (old) ReadOn(old.get(), collector);
}

std::vector<LogEntry> LogFile::Read(uint64_t since_ns, size_t most,
                                    bool with_rest) {
  Collector collector(this, since_ns, most);
  // Begins with the first whole line of the last kMaxRead bytes.
  const auto start = [&](int fd) {
    offset_ = 0;
    if (SizeOf(fd) <= kMaxRead) return;
    offset_ = SizeOf(fd) - kMaxRead;
    for (char c = 0; c != '\n' && pread(fd, &c, 1, offset_) == 1;) ++offset_;
  };
  if (old_) {
    start(old_.get());
    ReadOn(old_.get(), &collector);
    old_.reset();
    offset_ = 0;
    read_.clear();
    if (fd_) start(fd_.get());
  } else if (offset_ == 0 && fd_) {
    start(fd_.get());
  }
  // Rotated: its beginning is new, and so is the end of what it was before.
  if (fd_ && SizeOf(fd_.get()) < offset_) {
    ReadRotated(&collector);
    offset_ = 0;
    read_.clear();
  }
  if (fd_) ReadOn(fd_.get(), &collector);
  if (with_rest && !unfinished_.empty()) {
    collector.Add(std::exchange(unfinished_, ""), std::exchange(cut_, 0));
  }
  return collector.Take(fd_ ? WrittenNs(fd_.get()) : 0);
}

std::vector<LogEntry> LogFile::ReadLast(size_t most, off_t max_read) {
  Collector collector(this, 0, most);
  const auto read = [&](int fd, const Tail& tail) {
    if (!tail.whole) unfinished_ = "... ";
    offset_ = tail.start;
    ReadOn(fd, &collector);
  };
  const Tail tail = fd_ ? FindTail(fd_.get(), most, max_read) : Tail();
  const off_t left = max_read - (fd_ ? SizeOf(fd_.get()) : 0);
  if (old_ && tail.lines < most && left > 0) {
    read(old_.get(), FindTail(old_.get(), most - tail.lines, left));
  }
  if (fd_) read(fd_.get(), tail);
  if (!unfinished_.empty()) {
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

absl::StatusOr<uint64_t> ParseSince(const std::string& text, uint64_t now_ns) {
  if (const auto before = ParseDuration(text); before.ok()) {
    return now_ns - std::min(*before, now_ns);
  }
  // "03:19": today's, or yesterday's if that is still to come.
  const bool only_clock = text.size() < 5 || text[4] != '-';
  // In another zone it may be another day.
  for (const time_t days_ago : {-2, -1, 0, 1, 2}) {
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
      "--since {}: must be a duration of at most a day (10s, 5min, 2h) or a "
      "time (03:19, 03:19:01.5, '2026-11-27 03:19:01', also with a zone: "
      "+01:00)",
      Quote(text)));
}

}  // namespace carillon::cli
