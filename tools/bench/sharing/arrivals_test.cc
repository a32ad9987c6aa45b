#include "tools/bench/sharing/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>

#include "base/temp_directory.h"

namespace carillon::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds kSecond = 1'000'000'000;

TEST(Arrivals, UniformOnesAreAGapApartAndEndBeforeTheEnd) {
  EXPECT_THAT(UniformArrivals(10, 40), ElementsAre(10, 20, 30));
  EXPECT_TRUE(UniformArrivals(40, 40).empty());
}

TEST(Arrivals, PoissonsGapsHaveTheirMeanAndItsDeviation) {
  const Arrivals arrivals = PoissonArrivals(20'000, 4 * kSecond, 1);
  // 200,000 expected, with a deviation of the root of that: 5 of them.
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 200'000, 5 * 448);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals));
  EXPECT_LT(arrivals.back(), 4 * kSecond);
  // Memoryless: e^-1 of the gaps are longer than the mean, e^-3 than thrice.
  size_t longer = 0, thrice = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const Nanoseconds gap = arrivals[i] - arrivals[i - 1];
    longer += gap > 20'000;
    thrice += gap > 60'000;
  }
  const auto count = static_cast<double>(arrivals.size());
  EXPECT_NEAR(static_cast<double>(longer) / count, 0.3679, 0.01);
  EXPECT_NEAR(static_cast<double>(thrice) / count, 0.0498, 0.005);
}

TEST(Arrivals, ASeedGivesTheSamePoissonArrivalsAgainAndAnotherOthers) {
  const Arrivals once = PoissonArrivals(1000, 1'000'000, 7);
  EXPECT_EQ(PoissonArrivals(1000, 1'000'000, 7), once);
  EXPECT_NE(PoissonArrivals(1000, 1'000'000, 8), once);
}

TEST(Arrivals, ATraceHasATimeALineAndComments) {
  const auto trace = ParseTrace("# us\n0\n1.5\n\n  1.5 # twice\r\n20");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(*trace, ElementsAre(0, 1500, 1500, 20'000));
}

TEST(Arrivals, ABadTraceIsRefusedWithItsLine) {
  const auto refused = [](std::string_view text) {
    const auto trace = ParseTrace(text);
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    return std::string(trace.status().message());
  };
  EXPECT_THAT(refused("1\n2\nthree\n"), HasSubstr("line 3: 'three' is no"));
  EXPECT_THAT(refused("1\n2 3\n"), HasSubstr("line 2: '2 3'"));
  EXPECT_THAT(refused("1\n-2\n"), HasSubstr("line 2: '-2'"));
  EXPECT_THAT(refused("1\nnan\n"), HasSubstr("line 2: 'nan'"));
  EXPECT_THAT(refused("1\ninf\n"), HasSubstr("line 2: 'inf'"));
  EXPECT_THAT(refused("1\n1e3\n"), HasSubstr("line 2: '1e3'"));
  EXPECT_THAT(refused("1\n3600000001\n"), HasSubstr("line 2"));
  EXPECT_THAT(refused("5\n4\n"), HasSubstr("line 2: '4' comes after 5.000"));
  EXPECT_THAT(refused("1\n\x1b[2J\n"), HasSubstr("'\\x1b[2J'"));
  EXPECT_THAT(refused(""), HasSubstr("at least two arrivals"));
  EXPECT_THAT(refused("# nothing\n7\n"), HasSubstr("at least two arrivals"));
  EXPECT_THAT(refused("7\n7\n7\n"), HasSubstr("not all at once"));
  std::string many;
  for (int i = 0; i <= 1'000'000; ++i) many += "1\n";
  EXPECT_THAT(refused(many), HasSubstr("line 1000001: more than 1,000,000"));
}

// Whatever the bytes are, a trace is refused, or keeps every promise that
// TracedArrivals() relies on.
TEST(Arrivals, AnyBytesAreRefusedOrAscend) {
  constexpr std::string_view kAlphabet = "0123456789.\n\n\n -#eEnax\t\r\xff";
  std::mt19937 random(1);
  size_t taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 24, ' ');
    for (char& c : text) {
      c = kAlphabet[random() % kAlphabet.size()];
      if (random() % 64 == 0) c = static_cast<char>(random());
    }
    const auto trace = ParseTrace(text);
    if (!trace.ok()) continue;
    ++taken;
    ASSERT_TRUE(std::ranges::is_sorted(*trace)) << text;
    ASSERT_GE(trace->size(), 2u) << text;
    ASSERT_LT(trace->front(), trace->back()) << text;
    ASSERT_LE(trace->back(), 3600 * kSecond) << text;
    const Arrivals arrivals = TracedArrivals(*trace, 100, 10'000);
    ASSERT_TRUE(std::ranges::is_sorted(arrivals)) << text;
    ASSERT_LT(arrivals.back(), 10'000u) << text;
    // 100 of them, give or take the trace's own bursts.
    ASSERT_NEAR(static_cast<double>(arrivals.size()), 100,
                static_cast<double>(trace->size()))
        << text;
  }
  EXPECT_GT(taken, 1000u);
}

TEST(Arrivals, ATraceIsStretchedToAMeanGapAndGoesRound) {
  // Gaps of 10 and 30: a mean of 20, stretched to 40.
  EXPECT_THAT(TracedArrivals({100, 110, 140}, 40, 250),
              ElementsAre(0, 20, 80, 120, 140, 200, 240));
}

TEST(Arrivals, AFileThatIsNotThereOrIsBadIsNamed) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/times";
  EXPECT_THAT(std::string(ReadTrace(path).status().message()), HasSubstr(path));
  std::ofstream(path) << "1\nx\n";
  EXPECT_THAT(std::string(ReadTrace(path).status().message()),
              AllOf(HasSubstr(path), HasSubstr("line 2")));
  std::ofstream(path) << "1\n2\n";
  EXPECT_THAT(ReadTrace(path).value(), ElementsAre(1000, 2000));
}

}  // namespace
}  // namespace carillon::bench
