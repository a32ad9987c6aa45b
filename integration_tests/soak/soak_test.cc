// Runs a short soak, and checks that a soak finds failures.
#include "integration_tests/soak/soak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "fmt/format.h"

namespace carillon::soak {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Options Short(uint32_t kills) {
  return {.kills = kills,
          .before = milliseconds(200),
          .after = milliseconds(300),
          .say = [](const std::string& line) { fmt::print("{}\n", line); }};
}

TEST(SoakTest, TwentyKillsUnderLoadLoseAndLeakNothing) {
  const Options options = Short(20);
  const Result result = Soak(options);
  fmt::print("{}", ReportText(options, result));
  EXPECT_THAT(result.wrong, IsEmpty());
  EXPECT_EQ(result.kills, 20u);
  EXPECT_GT(result.done, 1000u);
  EXPECT_GT(result.replies, 1000u);
  EXPECT_GT(result.figures.gpud_closed_us.all.size(), 0u);
  EXPECT_GT(result.figures.first_end_ms.all.size(), 0u);
}

// More kills than a supervisor accepts as a row that does not help.
TEST(SoakTest, OneProcessMayDieAgainAndAgain) {
  Options options = Short(7);
  options.only = {"nic.send"};  // which only nic0 passes
  options.bound = milliseconds(8000);
  const Result result = Soak(options);
  EXPECT_THAT(result.wrong, IsEmpty());
  EXPECT_EQ(result.kills, 7u);
}

TEST(SoakTest, AHangIsAVerdict) {
  Options options = Short(3);
  options.only = {"nic0"};
  options.bound = milliseconds(8000);
  options.disturb = [](testing::FaultTestbed& lab) {
    EXPECT_TRUE(lab.Signal("fpga0", SIGSTOP));
  };
  const Result result = Soak(options);
  EXPECT_EQ(result.kills, 1u);
  EXPECT_THAT(result.wrong,
              Contains(AllOf(HasSubstr("hung at its return for 8000 ms"),
                             HasSubstr("fpga0"))));
}

// The completion of one ring is lost, among several of a device that goes on.
TEST(SoakTest, ALostCompletionIsAHang) {
  Options options = Short(1);
  options.only = {"nic0"};
  options.bound = milliseconds(8000);
  options.disturb = [](testing::FaultTestbed& lab) {
    ASSERT_TRUE(lab.Inject({.name = "lost",
                            .process = "gpud",
                            .device = "nic1",
                            .point = faults::Point::kGpudComplete,
                            .action = faults::Action::kLose}));
    ASSERT_TRUE(lab.WaitForStrike("lost"));
  };
  EXPECT_THAT(Soak(options).wrong,
              Contains(AllOf(HasSubstr("hung at its return"),
                             HasSubstr("nic1: "), HasSubstr("in flight"))));
}

TEST(SoakTest, AFileThatIsLeftIsALeak) {
  Options options = Short(1);
  options.only = {"nic0"};
  std::string file;
  options.disturb = [&file](testing::FaultTestbed& lab) {
    file = lab.paths().log_directory() + "/mine.log";
    std::ofstream(file) << "left\n";
  };
  const Result result = Soak(options);
  EXPECT_THAT(result.wrong, Contains(HasSubstr(": file logs/mine.log")));
}

TEST(SoakTest, WhatThereIsNotIsNotKilled) {
  Options options = Short(1);
  options.only = {"nic7"};
  EXPECT_THAT(Soak(options).wrong, Contains(HasSubstr("no such role")));
}

}  // namespace
}  // namespace carillon::soak
