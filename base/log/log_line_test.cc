#include "base/log/log_line.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <time.h>

#include <memory>
#include <sstream>

namespace carillon {
namespace {

constexpr uint64_t kNoon = 1'795'780'800'412'345'678;  // 2026-11-27 12:00 UTC

class LogLineTest : public ::testing::Test {
 protected:
  ~LogLineTest() override { SetZone(nullptr); }
  static void SetZone(const char* zone) {
    if (zone == nullptr) {
      unsetenv("TZ");
    } else {
      setenv("TZ", zone, 1);
    }
    tzset();
  }
};

TEST_F(LogLineTest, TheTimeComesBackFromEveryZone) {
  for (const char* zone :
       {"UTC", "EST5", "XYZ-5:45", "CET-1CEST,M3.5.0,M10.5.0/3"}) {
    SetZone(zone);
    for (const uint64_t time :
         {kNoon, kNoon - uint64_t{150} * 86'400 * 1'000'000'000}) {
      const std::string line = FormatLogTime(time) + " nic0 warning a b";
      const auto parsed = ParseLogLine(line);
      ASSERT_TRUE(parsed.has_value()) << line;
      EXPECT_EQ(parsed->time_ns, time / 1'000'000 * 1'000'000) << line;
      EXPECT_EQ(parsed->process, "nic0");
      EXPECT_EQ(parsed->level, "warning");
    }
  }
  SetZone("EST5");
  EXPECT_EQ(FormatLogTime(kNoon), "2026-11-27 07:00:00.412-05:00");
  EXPECT_EQ(FormatLogTime(kNoon, 9), "2026-11-27 07:00:00.412345678-05:00");
}

TEST_F(LogLineTest, AnHourThatComesTwiceIsToldApart) {
  SetZone("CET-1CEST,M3.5.0,M10.5.0/3");
  // 02:30 on 2026-10-25, in summer and then in winter.
  constexpr uint64_t kSummer = 1'792'888'200'000'000'000;
  constexpr uint64_t kHour = 3'600'000'000'000;
  const std::string summer = FormatLogTime(kSummer) + " gpud info x";
  const std::string winter = FormatLogTime(kSummer + kHour) + " gpud info x";
  EXPECT_EQ(summer, "2026-10-25 02:30:00.000+02:00 gpud info x");
  EXPECT_EQ(winter, "2026-10-25 02:30:00.000+01:00 gpud info x");
  EXPECT_EQ(ParseLogLine(summer)->time_ns, kSummer);
  EXPECT_EQ(ParseLogLine(winter)->time_ns, kSummer + kHour);
}

TEST_F(LogLineTest, SpdlogWritesTheSameLine) {
  SetZone("XYZ-5:45");
  std::ostringstream out;
  spdlog::logger logger("nic0",
                        std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_pattern(kLogPattern);
  const uint64_t before = RealtimeNs();
  logger.warn("a text");
  const uint64_t after = RealtimeNs();
  const std::string line = out.str();
  const auto parsed = ParseLogLine(line);
  ASSERT_TRUE(parsed.has_value()) << line;
  EXPECT_GE(parsed->time_ns, before / 1'000'000 * 1'000'000);
  EXPECT_LE(parsed->time_ns, after);
  EXPECT_EQ(line, FormatLogTime(parsed->time_ns) + " nic0 warning a text\n");
}

TEST_F(LogLineTest, EveryLevelOfSpdlogIsKnown) {
  for (int level = 0; level < spdlog::level::off; ++level) {
    const auto name =
        spdlog::level::to_string_view(spdlog::level::level_enum(level));
    const std::string line =
        FormatLogLine("gpud", {name.data(), name.size()}, "");
    ASSERT_TRUE(ParseLogLine(line).has_value()) << line;
  }
}

TEST_F(LogLineTest, OtherLinesHaveNoTime) {
  for (const char* line :
       {"", "a line", "2026-11-27", "2026-11-27 12:00:00 up",
        "2026-11-27 12:00:00.412 nic0 info without a zone",
        "2026-11-27 12:00:00.412+01:00", "2026-11-27 12:00:00.412+01:00 ",
        "2026-11-27 12:00:00.412+01:00 nic0",
        "2026-11-27 12:00:00.412+01:00 nic0 loud x",
        "2026-11-27 12:00:00.412+01:00  info x",
        "2026-13-27 12:00:00.412+01:00 nic0 info x",
        "2026-02-30 12:00:00.412+01:00 nic0 info x",
        "2026-11-27 25:00:00.412+01:00 nic0 info x",
        "2026-11-27 12:00:00.4a2+01:00 nic0 info x",
        "2026-11-27T12:00:00.412+01:00 nic0 info x",
        " 2026-11-27 12:00:00.412+01:00 nic0 info x",
        "9999-11-27 12:00:00.412+01:00 nic0 info x",
        "1969-11-27 12:00:00.412+01:00 nic0 info x"}) {
    EXPECT_FALSE(ParseLogLine(line).has_value()) << line;
  }
  EXPECT_TRUE(ParseLogLine("2026-11-27 12:00:00.412+01:00 nic0 info"));
}

}  // namespace
}  // namespace carillon
