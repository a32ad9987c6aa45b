// Launch path `edge`, from its PTX, in many orders, on memory as weak as PTX
// allows.
#include "gpu_daemon/backends/cuda/sim_driver/edge_world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "kernels/registry.h"

namespace carillon::gpud::cuda {
namespace {

class EdgeWorldTest : public ::testing::Test {
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

TEST_F(EdgeWorldTest, EveryEventEndsOnceWithItsOutput) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    EXPECT_EQ(EdgeWorld(code_.get(), ConfigOf(seed)).Run(), absl::OkStatus());
  }
}

TEST_F(EdgeWorldTest, EachKernelThatRunsInlineHasANumberOfItsOwn) {
  std::set<uint64_t> numbers = {0};
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    const uint64_t number =
        code_->Word("carillon_inline_" + std::string(kernel->name));
    EXPECT_EQ(numbers.insert(number).second, kernel->runs_inline())
        << kernel->name << " has number " << number;
  }
  EXPECT_GE(numbers.size(), 5u);
}

TEST_F(EdgeWorldTest, ATrapEndsTheDispatcherInAnyState) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    WorldConfig config = ConfigOf(seed);
    config.trap = true;
    EXPECT_EQ(EdgeWorld(code_.get(), config).Run(), absl::OkStatus());
  }
}

TEST_F(EdgeWorldTest, ASeedIsOneRunInstructionByInstruction) {
  const auto run_of = [&](uint64_t seed) {
    uint64_t hash = 0;
    WorldConfig config = ConfigOf(7);
    config.seed = seed;
    config.executed = [&](const sim::Warp& warp, const sim::Op& op,
                          sim::LaneMask lanes) {
      hash = (hash ^ (uint64_t{op.pc} << 32 | lanes) ^ warp.index()) *
             0x9e3779b97f4a7c15;
    };
    EXPECT_EQ(EdgeWorld(code_.get(), config).Run(), absl::OkStatus());
    return hash;
  };
  const uint64_t once = run_of(3);
  EXPECT_EQ(run_of(3), once);
  EXPECT_NE(run_of(4), once);
}

}  // namespace
}  // namespace carillon::gpud::cuda
