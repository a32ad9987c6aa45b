#include "tools/cli/commands/testbed/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/log/log_line.h"
#include "base/temp_directory.h"

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'795'780'800 * kSecond;  // 2026-11-27 12:00 UTC
constexpr size_t kAll = SIZE_MAX;

std::string At(uint64_t seconds, const std::string& process,
               const std::string& text) {
  return fmt::format("{} {} info {}\n",
                     FormatLogTime(kStart + seconds * kSecond), process, text);
}

class LogFilesTest : public ::testing::Test {
 protected:
  void Append(const std::string& file, const std::string& text) {
    std::ofstream(folder_.path() + "/" + file, std::ios::app) << text;
  }
  // As if it was last written then.
  void WrittenAt(const std::string& file, uint64_t seconds) {
    const timespec time{
        .tv_sec = static_cast<time_t>(kStart / kSecond + seconds),
        .tv_nsec = 0};
    const timespec times[2] = {time, time};
    ASSERT_EQ(
        utimensat(AT_FDCWD, (folder_.path() + "/" + file).c_str(), times, 0),
        0);
  }
  LogFile Open(const std::string& name) {
    return LogFile(folder_.path(), name);
  }
  static std::vector<std::string> Ends(const std::vector<LogEntry>& entries) {
    std::vector<std::string> ends;
    for (const LogEntry& entry : entries) {
      ends.push_back(entry.line.substr(entry.line.rfind(' ') + 1));
    }
    return ends;
  }

  TempDirectory folder_;
};

TEST_F(LogFilesTest, ProcessesAreMergedByTimeAndEachKeepsItsOrder) {
  Append("a.log", At(1, "a", "a1") + "more of a1\n" + At(5, "a", "a5") +
                      At(4, "a", "a4-late"));
  Append("b.log", At(2, "b", "b2") + At(3, "b", "b3") + At(9, "b", "b9"));
  LogFile a = Open("a");
  LogFile b = Open("b");
  EXPECT_THAT(Ends(MergeByTime({a.Read(0, kAll, true), b.Read(0, kAll, true)})),
              ElementsAre("a1", "a1", "b2", "b3", "a5", "a4-late", "b9"));
}

TEST_F(LogFilesTest, AnEntryHasTheTimeAndLevelThatItsLineSays) {
  Append("a.log", At(1, "a", "x") + "past the logger\n");
  LogFile log = Open("a");
  const auto entries = log.Read(0, kAll, true);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].time_ns, kStart + kSecond);
  EXPECT_EQ(entries[0].level, "info");
  EXPECT_EQ(entries[0].process, "a");
  EXPECT_EQ(entries[1].time_ns, std::nullopt);
  EXPECT_EQ(entries[1].level, "");
  EXPECT_EQ(entries[1].order_ns, kStart + kSecond);
}

TEST_F(LogFilesTest, SinceLeavesOutWhatIsOlderAndWhatBelongsToIt) {
  Append("a.log", "before all times\n" + At(1, "a", "1") + "of 1\n" +
                      At(5, "a", "5") + "of-5\n");
  EXPECT_THAT(Ends(Open("a").Read(kStart + 5 * kSecond, kAll, true)),
              ElementsAre("5", "of-5"));
  EXPECT_THAT(Ends(Open("a").Read(kStart, kAll, true)),
              ElementsAre("times", "1", "1", "5", "of-5"));
  EXPECT_THAT(Open("a").Read(kStart + 6 * kSecond, kAll, true), IsEmpty());
}

TEST_F(LogFilesTest, ALogWithoutTimesIsAsOldAsItsLastWrite) {
  Append("own.log", "one\ntwo\n");
  WrittenAt("own.log", 7);
  const auto entries = Open("own").Read(kStart + 7 * kSecond, kAll, true);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].order_ns, kStart + 7 * kSecond);
  EXPECT_THAT(Open("own").Read(kStart + 8 * kSecond, kAll, true), IsEmpty());
}

TEST_F(LogFilesTest, TheLastLinesAreThoseOfTheRotatedLogToo) {
  Append("a.old.log", At(1, "a", "1") + At(2, "a", "2"));
  Append("a.log", At(3, "a", "3"));
  EXPECT_THAT(Ends(Open("a").Read(0, 2, true)), ElementsAre("2", "3"));
  EXPECT_THAT(Open("a").Read(0, 0, true), IsEmpty());
}

TEST_F(LogFilesTest, NewLinesComeWhenTheyAreWhole) {
  Append("a.log", At(1, "a", "1") + "beg");
  LogFile log = Open("a");
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("1"));
  Append("a.log", "un");
  EXPECT_THAT(log.Read(0, kAll, false), IsEmpty());
  Append("a.log", "\n" + At(2, "a", "2"));
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("begun", "2"));
  // Rotated: it begins anew.
  ASSERT_EQ(truncate((folder_.path() + "/a.log").c_str(), 0), 0);
  Append("a.log", "3\n");
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("3"));
  Append("a.log", "no end");
  EXPECT_THAT(Ends(log.Read(0, kAll, true)), ElementsAre("end"));
}

TEST_F(LogFilesTest, ARotationLosesNoLine) {
  Append("a.old.log", At(1, "a", "1"));
  Append("a.log", At(2, "a", "2") + At(3, "a", "3") + "be");
  LogFile log = Open("a");
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("1", "2", "3"));
  const auto rotate = [&] {
    std::filesystem::copy_file(
        folder_.path() + "/a.log", folder_.path() + "/a.old.log",
        std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(truncate((folder_.path() + "/a.log").c_str(), 0), 0);
  };
  Append("a.log", "gun\n" + At(4, "a", "4"));
  rotate();
  Append("a.log", At(5, "a", "5"));
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("begun", "4", "5"));
  // So much meanwhile that what was read last is gone.
  Append("a.log", "cut\n" + At(6, "a", "6") + At(7, "a", "7"));
  rotate();
  std::ofstream(folder_.path() + "/a.old.log") << "half a line\n"
                                               << At(7, "a", "7");
  EXPECT_THAT(Ends(log.Read(0, kAll, false)), ElementsAre("7"));
}

TEST_F(LogFilesTest, ManyEmptyLinesTakeNoMoreThanTheirShare) {
  Append("a.log", std::string(1 << 20, '\n') + "last\n");
  const auto entries = Open("a").Read(0, kAll, true);
  EXPECT_EQ(entries.back().line, "last");
  EXPECT_LE(entries.size() * sizeof(LogEntry), LogFile::kMaxKept);
  EXPECT_GT(entries.size(), size_t{100'000});
}

TEST_F(LogFilesTest, AHugeLineIsCutAndTheNextIsWhole) {
  const std::string huge(5 * LogFile::kMaxLine, 'x');
  Append("a.log", huge + "\nshort\n" + huge);
  const auto entries = Open("a").Read(0, kAll, true);
  ASSERT_EQ(entries.size(), 3u);
  const std::string cut =
      huge.substr(0, LogFile::kMaxLine) +
      fmt::format("... ({} bytes more)", 4 * LogFile::kMaxLine);
  EXPECT_EQ(entries[0].line, cut);
  EXPECT_EQ(entries[1].line, "short");
  EXPECT_EQ(entries[2].line, cut);
}

TEST_F(LogFilesTest, TheLastLinesAreReadFromTheEnd) {
  Append("a.old.log", At(1, "a", "1") + At(2, "a", "2") + At(3, "a", "3"));
  Append("a.log", At(4, "a", "4") + "of-4\n" + At(5, "a", "5") + "no-end");
  constexpr off_t kPlenty = 1 << 20;
  EXPECT_THAT(Ends(Open("a").ReadLast(2, kPlenty)), ElementsAre("5", "no-end"));
  EXPECT_THAT(Ends(Open("a").ReadLast(5, kPlenty)),
              ElementsAre("3", "4", "of-4", "5", "no-end"));
  EXPECT_THAT(Ends(Open("a").ReadLast(9, kPlenty)),
              ElementsAre("1", "2", "3", "4", "of-4", "5", "no-end"));
  EXPECT_THAT(Open("a").ReadLast(0, kPlenty), IsEmpty());
  // What it may not read it lacks: whole lines, of the old log too.
  const off_t size = static_cast<off_t>(At(5, "a", "5").size());
  EXPECT_THAT(Ends(Open("a").ReadLast(9, size + 7)),
              ElementsAre("5", "no-end"));
  EXPECT_THAT(Ends(Open("a").ReadLast(9, 3 * size + 11)),
              ElementsAre("3", "4", "of-4", "5", "no-end"));
  EXPECT_THAT(Open("fifo").ReadLast(9, kPlenty), IsEmpty());
}

TEST_F(LogFilesTest, OfALineThatAloneIsTooLongTheEndIsThere) {
  Append("a.log", std::string(9000, 'x') + "end");
  const auto entries = Open("a").ReadLast(9, 5);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].line, "... xxend");
}

TEST_F(LogFilesTest, NoMoreIsReadThanTheLastLinesTake) {
  // It may read 8 MiB, and two blocks are enough for so short lines.
  Append("a.log", std::string(32 << 20, '\n') + At(1, "a", "1"));
  const auto bytes_read = [] {
    std::ifstream counts("/proc/self/io");
    std::string name;
    uint64_t value = 0;
    while (counts >> name >> value && name != "rchar:") continue;
    return value;
  };
  const uint64_t before = bytes_read();
  EXPECT_THAT(Open("a").ReadLast(200, 8 << 20).size(), 200u);
  EXPECT_LT(bytes_read() - before, 200'000u);
}

TEST_F(LogFilesTest, OddFilesDoNotHoldTheReader) {
  ASSERT_EQ(mkfifo((folder_.path() + "/fifo.log").c_str(), 0600), 0);
  EXPECT_THAT(Open("fifo").Read(0, kAll, true), IsEmpty());
  EXPECT_THAT(Open("none").Read(0, kAll, true), IsEmpty());
}

class ParseSinceTest : public ::testing::Test {
 protected:
  ParseSinceTest() {
    setenv("TZ", "XYZ-5:45", 1);
    tzset();
  }
  ~ParseSinceTest() override {
    unsetenv("TZ");
    tzset();
  }
  // 17:45 there.
  static uint64_t Since(const std::string& text) {
    const auto since = ParseSince(text, kStart);
    EXPECT_TRUE(since.ok()) << since.status();
    return since.ok() ? *since : 0;
  }
};

TEST_F(ParseSinceTest, TakesDurationsAndTimes) {
  EXPECT_EQ(Since("10s"), kStart - 10 * kSecond);
  EXPECT_EQ(Since("2h"), kStart - 2 * 3600 * kSecond);
  EXPECT_EQ(Since("1.5 h"), kStart - 5400 * kSecond);
  EXPECT_EQ(Since("24h"), kStart - 86'400 * kSecond);
  EXPECT_EQ(Since("2026-11-27 12:00Z"), kStart);
  EXPECT_EQ(Since("2026-11-27T13:00:01.5+01:00"), kStart + 1'500'000'000);
  for (const char* bad :
       {"", "yesterday", "10", "25:00", "12:61", "12:00x", "2026-11-31 12:00",
        "2026-11-27", "infinite-past", "1969-01-01 00:00Z", "9999-01-01 00:00",
        "-5s", "h", "-1h", "25h", "24.01h", "1minh", "1hh"}) {
    const auto since = ParseSince(bad, kStart);
    EXPECT_EQ(since.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(since.status().message()), HasSubstr("--since"));
  }
}

TEST_F(ParseSinceTest, ATimeWithoutAZoneIsLocal) {
  EXPECT_EQ(Since("2026-11-27 17:45"), kStart);
  EXPECT_EQ(Since("2026-11-27 17:45:00.25"), kStart + kSecond / 4);
  EXPECT_EQ(Since(FormatLogTime(kStart).substr(0, 23)), kStart);
}

TEST_F(ParseSinceTest, AClocksTimeIsTheLastOne) {
  EXPECT_EQ(Since("17:44"), kStart - 60 * kSecond);
  EXPECT_EQ(Since("17:45"), kStart);
  EXPECT_EQ(Since("17:46:30"), kStart - 86'400 * kSecond + 90 * kSecond);
  // Also in another zone, where it may be another day.
  EXPECT_EQ(Since("07:00-05:00"), kStart);
  EXPECT_EQ(Since("07:01-05:00"), kStart - 86'400 * kSecond + 60 * kSecond);
  EXPECT_EQ(Since("12:00Z"), kStart);
  EXPECT_EQ(Since("02:00+14:00"), kStart);
  EXPECT_EQ(Since("00:00-12:00"), kStart);
}

}  // namespace
}  // namespace carillon::cli
