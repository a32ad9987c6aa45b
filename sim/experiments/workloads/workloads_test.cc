// Every workload of the figures, small: without time and on the GPU of EDGE's
// Table II it computes what its definition says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "sim/exec/functional.h"
#include "sim/experiments/workloads/background.h"
#include "sim/experiments/workloads/event_kernel.h"
#include "sim/experiments/workloads/isolated.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

using ::testing::HasSubstr;

// Runs it without a model of time; returns the warp instructions.
absl::StatusOr<uint64_t> RunFunctionally(Background& background,
                                         const Memory& memory, uint32_t seed) {
  background.Start(seed);
  FunctionalGpu gpu(&memory, {});
  uint64_t instructions = 0;
  while (const auto launch = background.Next()) {
    ASSIGN_OR_RETURN(const auto result, gpu.Run(*launch));
    instructions += result.warp_instructions;
  }
  RETURN_IF_ERROR(background.Check());
  return instructions;
}

struct World {
  World() : kernels(*Kernels::Load(&memory)) {}

  Memory memory;
  std::unique_ptr<Kernels> kernels;
};

class Backgrounds : public testing::TestWithParam<std::string_view> {
 protected:
  Backgrounds()
      : background_(
            *MakeBackground(GetParam(), Size::kSmall, world_.kernels.get())) {}

  World world_;
  std::unique_ptr<Background> background_;
};

TEST_P(Backgrounds, ComputeTheSameWithAndWithoutTime) {
  for (const uint32_t seed : {1u, 2u}) {
    const auto functional = RunFunctionally(*background_, world_.memory, seed);
    ASSERT_TRUE(functional.ok()) << functional.status();
    const auto timed = RunIsolated(*timing::LoadConfig("edge_table2"),
                                   *background_, world_.memory, seed);
    ASSERT_TRUE(timed.ok()) << timed.status();
    EXPECT_EQ(timed->warp_instructions, *functional);
    EXPECT_GT(timed->cycles, 300u);
    EXPECT_EQ(timed->launches, timed->statistics.grids);
  }
}

TEST_P(Backgrounds, FindWhatIsWrong) {
  // The kernels have not run, so the buffers are as they were filled.
  background_->Start(3);
  EXPECT_EQ(background_->Check().code(), absl::StatusCode::kDataLoss);
}

TEST_P(Backgrounds, TakeTheSameTimeAgain) {
  const timing::Config config = *timing::LoadConfig("edge_table2");
  const auto first = RunIsolated(config, *background_, world_.memory, 1);
  World other;
  const auto again =
      MakeBackground(GetParam(), Size::kSmall, other.kernels.get());
  const auto second = RunIsolated(config, **again, other.memory, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(ToJson(first->statistics), ToJson(second->statistics));
}

INSTANTIATE_TEST_SUITE_P(, Backgrounds, testing::ValuesIn(BackgroundNames()),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class Events : public testing::TestWithParam<std::string_view> {
 protected:
  static constexpr uint32_t kSlots = 6;

  Events()
      : event_(*MakeEventKernel(GetParam(), Size::kSmall, kSlots,
                                world_.kernels.get())) {}

  World world_;
  std::unique_ptr<EventKernel> event_;
};

TEST_P(Events, ComputeTheSameOneByOneAndAtOnce) {
  const timing::Config config = *timing::LoadConfig("edge_table2");
  const auto alone = RunIsolated(config, *event_, world_.memory, 1, 2 * kSlots);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->launches, 2 * kSlots);

  event_->Start(2);
  timing::Gpu gpu(config, &world_.memory, {});
  FunctionalGpu functional(&world_.memory, {});
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      event_->Prepare(slot);
      EXPECT_EQ(event_->Check(slot).code(), absl::StatusCode::kDataLoss);
      // Keep the last functional round.
      if (round == 2) {
        ASSERT_TRUE(functional.Run(event_->launch(slot)).ok());
      } else {
        ASSERT_TRUE(gpu.Submit(event_->launch(slot), {}).ok());
      }
    }
    gpu.Run();
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const absl::Status status = event_->Check(slot);
      EXPECT_TRUE(status.ok()) << slot << ": " << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Events, testing::ValuesIn(EventKernelNames()),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(Names, OthersAreNotFound) {
  World world;
  EXPECT_THAT(MakeBackground("CONV", Size::kSmall, world.kernels.get())
                  .status()
                  .ToString(),
              HasSubstr("NOT_FOUND: no background kernel 'CONV'; there are BP, "
                        "BFS, "));
  EXPECT_THAT(MakeEventKernel("IP", Size::kSmall, 1, world.kernels.get())
                  .status()
                  .ToString(),
              HasSubstr("no event kernel 'IP'; there are IPv4, IPv6, MemC, "
                        "IPSec"));
}

}  // namespace
}  // namespace carillon::sim::figures
