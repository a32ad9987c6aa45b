// Each fence of launch path stream_wait's stage, and of the epilogue of event
// kernels with and without barriers, is there for a reason: what goes wrong without
// it, or an argument (stage_fences.txt).
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gpu_daemon/backends/cuda/sim_driver/fence_list.h"
#include "gpu_daemon/backends/cuda/sim_driver/stage_world.h"

namespace carillon::gpud::cuda {
namespace {

class StageFencesTest : public ::testing::TestWithParam<const char*> {
 protected:
  const FenceList list_ = {
      .function = GetParam(),
      .path = "gpu_daemon/backends/cuda/sim_driver/stage_fences.txt",
      .run = [](WorldCode* code, uint64_t seed) {
        return std::make_unique<StageWorld>(code, StageConfigOf(seed))->Run();
      }};
};
INSTANTIATE_TEST_SUITE_P(, StageFencesTest,
                         ::testing::Values("carillon_stage_entry",
                                           "carillon_event_echo",
                                           "carillon_event_matmul"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(StageFencesTest, EachIsListedWithItsReason) {
  ExpectEachIsListed(list_);
}

TEST_P(StageFencesTest, WithoutOneThatMattersARunGoesWrong) {
  ExpectRunsGoWrong(list_, 400);
}

}  // namespace
}  // namespace carillon::gpud::cuda
