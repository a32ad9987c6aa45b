#include "base/option_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/option_table.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using enum OptionType;

struct Options {
  bool loud = false;
  uint32_t ring = 8;
  uint64_t lease_ns = 3'000'000'000;
  uint64_t memory = 0;
  double rate = 0.5;
  std::string mode = "slow";
};

std::vector<Option> OptionTable(Options& options) {
  return {
      {.flag = "--loud",
       .key = "loud",
       .type = kBoolean,
       .field = &options.loud,
       .help = "says more"},
      {.flag = "--ring",
       .key = "ring",
       .type = kInteger,
       .field = &options.ring,
       .min = 1,
       .max = 64,
       .power_of_two = true,
       .help = "entries",
       .lower_max = {{.key = "mode", .value = "fast", .max = 16}}},
      {.flag = "--lease",
       .type = kInteger,
       .field = &options.lease_ns,
       .max = 60,
       .unit = 1'000'000'000,
       .help = "seconds"},
      {.flag = "--memory",
       .type = kSize,
       .field = &options.memory,
       .min = 1 << 20,
       .max = 1 << 30,
       .or_zero = true,
       .help = "bytes"},
      {.flag = "--rate",
       .type = kDecimal,
       .field = &options.rate,
       .max = 100,
       .help = "a second"},
      {.flag = "--mode",
       .key = "mode",
       .type = kChoice,
       .field = &options.mode,
       .choices = {"slow", "fast"},
       .help = "how"},
  };
}

absl::Status Check(const Options& options) {
  Options checked = options;
  return CheckLowerMaxima(OptionTable(checked));
}

std::optional<int> Read(Options& options, std::vector<const char*> line) {
  line.insert(line.begin(), "program");
  return ReadFlags("program", "A program.", OptionTable(options),
                   static_cast<int>(line.size()),
                   const_cast<char**>(line.data()));
}

TEST(OptionFlags, SetTheFields) {
  Options options;
  EXPECT_EQ(Read(options, {"--loud", "--ring=4", "--lease", "2", "--memory",
                           "64M", "--rate", "1.5", "--mode", "fast"}),
            std::nullopt);
  EXPECT_TRUE(options.loud);
  EXPECT_EQ(options.ring, 4u);
  EXPECT_EQ(options.lease_ns, 2'000'000'000u);
  EXPECT_EQ(options.memory, uint64_t{64} << 20);
  EXPECT_EQ(options.rate, 1.5);
  EXPECT_EQ(options.mode, "fast");
}

TEST(OptionFlags, LeaveTheDefaultsAlone) {
  Options options;
  EXPECT_EQ(Read(options, {}), std::nullopt);
  EXPECT_EQ(options.ring, 8u);
  EXPECT_EQ(options.lease_ns, 3'000'000'000u);
}

TEST(OptionFlags, HelpTellsWhatIsAllowedAndTheDefault) {
  Options options;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Read(options, {"--help"}), 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("--ring a power of two, 1 to 64 (8)"));
  EXPECT_THAT(help, HasSubstr("--lease 0 to 60 (3)"));
  EXPECT_THAT(help, HasSubstr("--mode slow, fast (slow)"));
}

struct Refusal {
  const char* flag;
  const char* value;
  const char* sentence;
};

// Neither a number that is none nor one that is too large gets through, and a
// file is told the same as a command line.
TEST(OptionFlags, RefuseWhatTheTableRefusesInTheSameWords) {
  for (const Refusal& refusal : {
           Refusal{"--ring", "nan",
                   "'nan' is not a whole number; allowed: a power of two, 1 to "
                   "64"},
           Refusal{"--ring", "128",
                   "'128' is out of range; allowed: a power of two, 1 to 64"},
           Refusal{"--ring", "-1",
                   "'-1' is out of range; allowed: a power of two, 1 to 64"},
           Refusal{"--ring", "48",
                   "48 is not a power of two; the nearest are 32 and 64"},
           Refusal{"--lease", "61", "'61' is out of range; allowed: 0 to 60"},
           Refusal{"--lease", "99999999999999999999",
                   "'99999999999999999999' is out of range; allowed: 0 to 60"},
           Refusal{"--memory", "1KiB",
                   "'1KiB' is out of range; allowed: 0, or 1MiB to 1GiB"},
           Refusal{"--rate", "nan", "'nan' is not a number; allowed: 0 to 100"},
           Refusal{"--rate", "inf", "'inf' is out of range; allowed: 0 to 100"},
           Refusal{"--rate", "1e999",
                   "'1e999' is out of range; allowed: 0 to 100"},
           Refusal{"--rate", "-0.1",
                   "'-0.1' is out of range; allowed: 0 to 100"},
           Refusal{"--mode", "fats",
                   "'fats' is not known; did you mean 'fast'? (allowed: slow, "
                   "fast)"},
       }) {
    Options options;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Read(options, {refusal.flag, refusal.value}), 2);
    EXPECT_THAT(
        ::testing::internal::GetCapturedStderr(),
        HasSubstr(std::string(refusal.flag) + ": " + refusal.sentence + "\n"));
    for (const Option& option : OptionTable(options)) {
      if (option.flag != refusal.flag) continue;
      EXPECT_EQ(ReadSetting(option, refusal.value).status().message(),
                refusal.sentence);
    }
  }
}

TEST(OptionTable, ChecksSettingsThatStandTogether) {
  Options defaults;
  const std::vector<Option> table = OptionTable(defaults);
  const Setting ring = *ReadSetting(table[1], "32");
  const Setting mode = *ReadSetting(table[5], "fast");
  EXPECT_TRUE(CheckTogether<Options>(std::array{ring}).ok());
  EXPECT_EQ(CheckTogether<Options>(std::array{ring, mode}).message(),
            "--ring: '32' is out of range with mode fast; allowed: 1 to 16");
}

TEST(Setting, IsAFlagAgain) {
  Options defaults;
  const std::vector<Option> table = OptionTable(defaults);
  EXPECT_THAT(ReadSetting(table[0], "true")->ToFlags(), ElementsAre("--loud"));
  EXPECT_THAT(ReadSetting(table[0], "false")->ToFlags(), ElementsAre());
  EXPECT_THAT(ReadSetting(table[3], "1MiB")->ToFlags(),
              ElementsAre("--memory=1048576"));
  EXPECT_THAT(ReadSetting(table[4], "1.5")->ToFlags(),
              ElementsAre("--rate=1.5"));
}

}  // namespace
}  // namespace carillon
