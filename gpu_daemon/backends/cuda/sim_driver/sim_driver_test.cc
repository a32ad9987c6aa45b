// The machine code's source, run: gpud's PTX on the simulated GPU, behind every
// launch path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;

class SimDriverTest : public CudaBackendFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void Open() {
    Gpu::Options gpu;
    gpu.image = CudaModule();
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(gpu));
    Use(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SimDriverTest,
                         ::testing::Values("baseline", "baseline_flag", "graph",
                                           "stream_wait", "persistent", "edge"),
                         [](const auto& info) { return info.param; });

TEST_P(SimDriverTest, ServesEventsAndTheirFailures) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto event = AddFailIf(*device_, 4);
  for (uint32_t i = 0; i < 20; ++i) {
    const uint32_t code = i % 3 == 0 ? i : 0;
    const shm::Completion completion = RingAndWait(*device_, event, code);
    ASSERT_EQ(completion.sequence.value(), i + 1);
    ASSERT_EQ(completion.status, code != 0 ? KernelCode(code) : 0u);
    ASSERT_EQ(completion.state,
              code != 0 ? EventState::kFailed : EventState::kDone);
  }
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(violations(), 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
