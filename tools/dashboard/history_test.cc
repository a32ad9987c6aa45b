#include "tools/dashboard/history.h"

#include <gtest/gtest.h>

#include <string>

namespace carillon::dashboard {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(HistoryTest, KeepsTenMinutes) {
  History history;
  for (uint64_t second = 1; second <= 2000; ++second) {
    history.Add(second * kSecond, std::to_string(second));
  }
  EXPECT_EQ(history.size(), 600u);
  const auto all = history.Last(2000 * kSecond, 600);
  ASSERT_EQ(all.size(), 600u);
  EXPECT_EQ(*all.front(), "1401");
  EXPECT_EQ(*all.back(), "2000");
  const auto last = history.Last(2000 * kSecond, 3);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(*last.front(), "1998");
}

TEST(HistoryTest, HasABoundHoweverLongTheTextsAre) {
  History history;
  for (uint64_t second = 1; second <= 600; ++second) {
    history.Add(second * kSecond, std::string(1 << 20, 'x'));
    ASSERT_LE(history.bytes(), 64u << 20);
  }
  EXPECT_EQ(history.size(), 63u);
  history.Add(601 * kSecond, std::string(65 << 20, 'x'));
  EXPECT_EQ(history.size(), 0u);
  EXPECT_EQ(history.bytes(), 0u);
}

TEST(HistoryTest, CountsWhatShortTextsCost) {
  History history({.seconds = 1'000'000'000, .bytes = 1 << 20});
  for (uint64_t second = 1; second <= 100'000; ++second) {
    history.Add(second * kSecond, "");
  }
  EXPECT_LE(history.size(), (1u << 20) / History::kOverhead);
}

}  // namespace
}  // namespace carillon::dashboard
