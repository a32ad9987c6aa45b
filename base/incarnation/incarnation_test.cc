#include "base/incarnation/incarnation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include "base/temp_directory.h"

namespace carillon {
namespace {

TEST(Incarnation, GrowsWhateverTheClockDoes) {
  const TempDirectory folder;
  const std::string file = folder.path() + "/incarnation";
  constexpr uint64_t kRoom = kIncarnationRoom;
  const uint64_t first = NextIncarnation(file, 5 * kRoom).value_or(0);
  EXPECT_EQ(first, 5 * kRoom);
  EXPECT_EQ(*NextIncarnation(file, first), 6 * kRoom) << "the clock stands";
  EXPECT_EQ(*NextIncarnation(file, 7), 7 * kRoom) << "the clock went back";
  EXPECT_EQ(*NextIncarnation(file, 9 * kRoom), 9 * kRoom);
  const auto now = NextIncarnation(file);
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_GT(*now, 1'600'000'000'000'000'000u);
  EXPECT_GT(*NextIncarnation(file), *now);
}

TEST(Incarnation, NoTwoGetTheSame) {
  const TempDirectory folder;
  std::vector<uint64_t> got(400);
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = first; i < got.size(); i += 4) {
        got[i] = NextIncarnation(folder.path() + "/incarnation", 5).value_or(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(got);
  EXPECT_EQ(got.front(), kIncarnationRoom);
  EXPECT_EQ(got.back(), got.size() * kIncarnationRoom);
  EXPECT_EQ(std::ranges::adjacent_find(got), got.end());
}

TEST(Incarnation, AFileThatWasCutOffCountsForNothing) {
  const TempDirectory folder;
  const std::string file = folder.path() + "/incarnation";
  std::ofstream(file) << "abc";
  const uint64_t now = 9 * kIncarnationRoom;
  EXPECT_EQ(*NextIncarnation(file, now), now);
  EXPECT_EQ(*NextIncarnation(file, 9), now + kIncarnationRoom);
}

TEST(Incarnation, AFolderThatIsNotThereIsNamed) {
  const TempDirectory folder;
  const auto next = NextIncarnation(folder.path() + "/none/incarnation", 9);
  EXPECT_EQ(next.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(next.status().message().find("/none/incarnation: "),
            std::string::npos);
}

}  // namespace
}  // namespace carillon
