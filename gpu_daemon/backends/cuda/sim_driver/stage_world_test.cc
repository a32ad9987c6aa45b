// Launch path `stream_wait`'s kernels, from their PTX, in many orders, on memory as
// weak as PTX allows.
#include "gpu_daemon/backends/cuda/sim_driver/stage_world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"

namespace carillon::gpud::cuda {
namespace {

class StageWorldTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto ptx = PtxOfFatbin(CudaModule().data());
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    auto code = WorldCode::Load(*ptx);
    ASSERT_TRUE(code.ok()) << code.status();
    code_ = *std::move(code);
  }
  std::unique_ptr<WorldCode> code_;
};

TEST_F(StageWorldTest, EveryEventEndsOnceWithItsOutput) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_EQ(
        std::make_unique<StageWorld>(code_.get(), StageConfigOf(seed))->Run(),
        absl::OkStatus());
  }
}

TEST_F(StageWorldTest, ASeedIsOneRunInstructionByInstruction) {
  const auto run_of = [&](uint64_t seed) {
    uint64_t hash = 0;
    StageWorldConfig config = StageConfigOf(7);
    config.seed = seed;
    config.executed = [&](const sim::Warp& warp, const sim::Op& op,
                          sim::LaneMask lanes) {
      hash = (hash ^ (uint64_t{op.pc} << 32 | lanes) ^ warp.index()) *
             0x9e3779b97f4a7c15;
    };
    EXPECT_EQ(std::make_unique<StageWorld>(code_.get(), config)->Run(),
              absl::OkStatus());
    return hash;
  };
  const uint64_t once = run_of(3);
  EXPECT_EQ(run_of(3), once);
  EXPECT_NE(run_of(4), once);
}

}  // namespace
}  // namespace carillon::gpud::cuda
