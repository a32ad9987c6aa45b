// A gpud that cannot start reports the reason once, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

struct Refusal {
  const char* name;
  std::vector<std::string> flags;
  const char* sentence;
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class GpudStartTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(GpudStartTest, IsRefusedWithOneClearSentence) {
  const auto testbed = testing::Testbed::Start(GetParam().flags);
  ASSERT_FALSE(testbed.ok());
  EXPECT_THAT(std::string(testbed.status().message()),
              ::testing::HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    All, GpudStartTest,
    ::testing::Values(
        Refusal{
            "UnknownBackend",
            {"--backend", "opencl"},
            "'opencl' is not known (allowed: auto, cpu, cuda, sim, remote)"},
        Refusal{"UnknownPolicy", {"--policy", "fair"}, "first_come, priority"},
        Refusal{"NoEktEntries", {"--ekt-entries", "0"}, "--ekt-entries"},
        Refusal{
            "MoreMemoryThanThereIs", {"--memory", "1TiB"}, "this machine has"},
        Refusal{"UnknownFlag", {"--warkers", "2"}, "--warkers"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace carillon
