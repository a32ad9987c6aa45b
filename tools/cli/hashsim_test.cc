// What `carillon hashsim` says before it begins: its runs are long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tools/cli/cli_runner.h"

namespace carillon::cli {
namespace {

using ::testing::HasSubstr;

TEST(HashSim, AFolderThatCannotBeWrittenIsFoundBeforeTheFirstRun) {
  const CliResult result =
      RunCli({"hashsim", "4.8", "--quick", "--out", "/proc/nowhere"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("/proc/nowhere"));
  EXPECT_EQ(result.out, "") << "a figure was made";
}

TEST(HashSim, AFigureThatIsNamedTwiceIsRefused) {
  const CliResult result = RunCli({"hashsim", "4.8", "4.8", "--quick"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("'4.8' is named twice"));
  EXPECT_EQ(result.out, "");
}

TEST(HashSim, AFolderThatCanBeWrittenHasTheFigureAndNothingElse) {
  const std::string folder = ::testing::TempDir() + "/hashsim";
  const CliResult result =
      RunCli({"hashsim", "4.8", "--quick", "--out", folder});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("hashsim_4.8."));
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/hashsim_4.8.json"));
}

}  // namespace
}  // namespace carillon::cli
