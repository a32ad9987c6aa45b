#include "gpu_daemon/control/net/refusal_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::gpud {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Nanoseconds kSecond = 1'000'000'000;

class RefusalLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  RefusalLog log_{[this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(RefusalLogTest, AFewAreWrittenAsTheyCome) {
  for (const char* line : {"a", "b", "c"}) log_.Warn(line, kSecond);
  EXPECT_THAT(lines_, ElementsAre("a", "b", "c"));
  log_.Tick(9 * kSecond);
  EXPECT_THAT(lines_, SizeIs(3));
}

TEST_F(RefusalLogTest, ManyAreCountedAndTheLastIsTold) {
  for (int i = 0; i < 1000; ++i) log_.Warn(std::to_string(i), kSecond + i);
  EXPECT_THAT(lines_, ElementsAre("0", "1", "2", "3", "4"));
  lines_.clear();
  log_.Tick(2 * kSecond - 1);
  EXPECT_THAT(lines_, IsEmpty());
  log_.Tick(2 * kSecond);
  EXPECT_THAT(lines_,
              ElementsAre("and 995 more within a second, the last: 999"));
  log_.Tick(3 * kSecond);
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(RefusalLogTest, EverySecondBeginsAnew) {
  for (int i = 0; i < 10; ++i) log_.Warn("early", kSecond);
  lines_.clear();
  log_.Warn("late", 5 * kSecond);
  EXPECT_THAT(lines_, ElementsAre("and 5 more within a second, the last: early",
                                  "late"));
}

}  // namespace
}  // namespace carillon::gpud
