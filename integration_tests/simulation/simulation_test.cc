#include "integration_tests/simulation/simulation.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <set>
#include <string>

namespace carillon::simulation {
namespace {

constexpr uint32_t kStepsOfASeed = 1500;
constexpr uint64_t kSeeds = 150;

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::create_directories(directory_);
    auto bus = gpud::TelemetryBus::Start({.socket_path = directory_ + "/bus"});
    EXPECT_TRUE(bus.ok()) << bus.status();
    bus_ = *std::move(bus);
  }
  ~SimulationTest() override { std::filesystem::remove_all(directory_); }

  Outcome Run(uint64_t seed) {
    const std::string recorders = directory_ + "/recorders";
    Outcome outcome = Simulate(seed, kStepsOfASeed,
                               {.bus = bus_.get(), .directory = recorders});
    std::filesystem::remove_all(recorders);
    return outcome;
  }

  const std::string directory_ = std::filesystem::temp_directory_path() /
                                 ("carillon-sim-" + std::to_string(getpid()));
  std::unique_ptr<gpud::TelemetryBus> bus_;
};

TEST_F(SimulationTest, TheSameSeedLeavesTheSameTrace) {
  std::set<uint64_t> traces;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const uint64_t trace = Run(seed).trace;
    EXPECT_EQ(Run(seed).trace, trace) << seed;
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 10u);
}

TEST_F(SimulationTest, NoEventIsLostOrEndsTwiceWhoeverDies) {
  std::array<uint64_t, kSteps> steps{};
  uint64_t ok = 0;
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = Run(seed);
    for (const std::string& problem : outcome.problems) {
      ADD_FAILURE() << "seed " << seed << ": " << problem;
    }
    for (const ledger::Violation& violation : outcome.ledger.violations) {
      ADD_FAILURE() << "seed " << seed << ": " << violation.sentence;
    }
    ASSERT_FALSE(HasFailure())
        << "replay: simulate --seed " << seed << " --steps " << kStepsOfASeed;
    for (size_t i = 0; i < kSteps; ++i) steps[i] += outcome.steps[i];
    ok += outcome.ledger.total.ok;
    failed += outcome.ledger.total.failed;
  }
  // Every kind of step has occurred, and most events have ended well.
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_GT(steps[i], 100u) << StepName(Step(i));
  }
  EXPECT_GT(ok, 5 * failed);
  EXPECT_GT(failed, 0u);
  EXPECT_GT(ok, 100 * kSeeds);
}

}  // namespace
}  // namespace carillon::simulation
