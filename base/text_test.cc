#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;

TEST(ParseSize, TakesPlainBytesAndBinaryUnits) {
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("1KiB"), 1024u);
  EXPECT_EQ(*ParseSize("64 MiB"), uint64_t{64} << 20);
  EXPECT_EQ(*ParseSize("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(*ParseSize("1TiB"), uint64_t{1} << 40);
  EXPECT_EQ(*ParseSize("64M"), uint64_t{64} << 20);
  EXPECT_EQ(*ParseSize("18446744073709551615"), UINT64_MAX);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "64MB", "64m", "1.5GiB", "-1", "+1", " 1",
                           "1KiBs", "0x10"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_THAT(std::string(size.status().message()),
                HasSubstr("is not a size; write a number with KiB"));
  }
}

TEST(ParseSize, RefusesMoreThanSixtyFourBits) {
  EXPECT_EQ(ParseSize("18446744073709551616").status().message(),
            "'18446744073709551616' is more than 64 bits hold");
  EXPECT_EQ(ParseSize("16777216TiB").status().message(),
            "'16777216TiB' is more than 64 bits hold");
}

TEST(ParseDuration, TakesUnitsAndFractions) {
  EXPECT_EQ(*ParseDuration("0"), 0u);
  EXPECT_EQ(*ParseDuration("7ns"), 7u);
  EXPECT_EQ(*ParseDuration("20us"), 20'000u);
  EXPECT_EQ(*ParseDuration("500 ms"), 500'000'000u);
  EXPECT_EQ(*ParseDuration("1.5s"), 1'500'000'000u);
  EXPECT_EQ(*ParseDuration("0.001us"), 1u);
  EXPECT_EQ(*ParseDuration("1440min"), uint64_t{86400} * 1'000'000'000);
  EXPECT_EQ(*ParseDuration("1.5h"), uint64_t{5400} * 1'000'000'000);
  EXPECT_EQ(*ParseDuration("24h"), uint64_t{86400} * 1'000'000'000);
}

TEST(ParseDuration, RefusesWhatIsNone) {
  for (const char* text :
       {"", "s", "5", "5 hours", "-1s", ".5s", "1.s", "0.0001us", "1441min",
        "25h", "99999999999999999999s", "1s ", "1.00000000000s"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
  EXPECT_THAT(std::string(ParseDuration("5").status().message()),
              HasSubstr("'5' is not a duration of at most a day; write a "
                        "number with ns, us, ms, s, min or h"));
}

TEST(FormatExactDuration, IsReadBackToTheSameNumber) {
  for (const uint64_t ns :
       {uint64_t{0}, uint64_t{1}, uint64_t{1500}, uint64_t{1'500'000'000},
        uint64_t{60'000'000'000}, uint64_t{86'400'000'000'000}}) {
    EXPECT_EQ(*ParseDuration(FormatExactDuration(ns)), ns);
  }
  EXPECT_EQ(FormatExactDuration(500'000'000), "500ms");
}

TEST(FormatBytes, IsExactForWholeUnitsAndRoundsOthers) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{64} << 20), "64 MiB");
}

TEST(FormatExactSize, IsReadBackToTheSameNumber) {
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024},
        uint64_t{1025}, uint64_t{48} << 10, uint64_t{3} << 30, UINT64_MAX}) {
    EXPECT_EQ(*ParseSize(FormatExactSize(size)), size);
  }
  EXPECT_EQ(FormatExactSize(48 << 10), "48KiB");
}

TEST(FormatNanoseconds, KeepsThreeDigits) {
  EXPECT_EQ(FormatNanoseconds(0), "0 ns");
  EXPECT_EQ(FormatNanoseconds(999), "999 ns");
  EXPECT_EQ(FormatNanoseconds(1000), "1.00 us");
  EXPECT_EQ(FormatNanoseconds(12'340), "12.3 us");
  EXPECT_EQ(FormatNanoseconds(999'400), "999 us");
  EXPECT_EQ(FormatNanoseconds(999'600), "1.00 ms");
  EXPECT_EQ(FormatNanoseconds(45'600'000), "45.6 ms");
  EXPECT_EQ(FormatNanoseconds(1'200'000'000), "1.20 s");
  EXPECT_EQ(FormatNanoseconds(5'000'000'000'000), "5000 s");
}

TEST(FormatAge, UsesTheTwoLargestUnits) {
  constexpr uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ(FormatAge(3 * kSecond), "3 s");
  EXPECT_EQ(FormatAge(125 * kSecond), "2 min 5 s");
  EXPECT_EQ(FormatAge(4 * 3600 * kSecond + 12 * 60 * kSecond), "4 h 12 min");
  EXPECT_EQ(FormatAge(74 * 3600 * kSecond), "3 d 2 h");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(FormatPlural, HasAnSButForOne) {
  EXPECT_EQ(FormatPlural(0, "fault"), "0 faults");
  EXPECT_EQ(FormatPlural(1, "fault"), "1 fault");
  EXPECT_EQ(FormatPlural(2, "fault"), "2 faults");
}

TEST(EscapeBytes, WritesWhatTheCallerPicks) {
  EXPECT_EQ(EscapeBytes("a\x1b[2J\x7f\xff", absl::ascii_iscntrl),
            "a\\x1b[2J\\x7f\xff");
  EXPECT_EQ(EscapeBytes("", absl::ascii_iscntrl), "");
}

TEST(Quote, LetsNothingThroughThatATerminalObeys) {
  EXPECT_EQ(Quote("nic0"), "'nic0'");
  EXPECT_EQ(Quote("\x1b[2J"), "'\\x1b[2J'");
  EXPECT_EQ(Quote("h\xc3\xa4"), "'h\xc3\xa4'");
  EXPECT_EQ(Quote("\xc2\x9b"), "'\\xc2\\x9b'");
  EXPECT_EQ(Quote("\xff"), "'\\xff'");
  EXPECT_EQ(Quote("\xe2\x82"), "'\\xe2\\x82'");
  EXPECT_EQ(Quote(std::string(100, 'x')), "'" + std::string(60, 'x') + "...'");
}

TEST(JoinWords, ReadsAsAPersonWouldWrite) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(JoinWords(Words{}), "nothing");
  EXPECT_EQ(JoinWords(Words{"a"}), "a");
  EXPECT_EQ(JoinWords(Words{"a", "b"}), "a and b");
  EXPECT_EQ(JoinWords(Words{"a", "b", "c"}), "a, b and c");
}

TEST(DidYouMean, GuessesOnlyWhatIsNear) {
  EXPECT_EQ(DidYouMean("stauts", {"status", "rings"}),
            "; did you mean 'status'?");
  EXPECT_EQ(DidYouMean("elephant", {"status", "rings"}, "; no"), "; no");
}

}  // namespace
}  // namespace carillon
