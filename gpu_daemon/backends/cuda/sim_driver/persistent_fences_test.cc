// Each fence of launch path persistent's blocks is there for a reason: what goes
// wrong without it, or an argument (persistent_fences.txt).
#include <gtest/gtest.h>

#include <memory>

#include "gpu_daemon/backends/cuda/sim_driver/fence_list.h"
#include "gpu_daemon/backends/cuda/sim_driver/persistent_world.h"

namespace carillon::gpud::cuda {
namespace {

const FenceList kList = {
    .function = "carillon_persistent_echo",
    .path = "gpu_daemon/backends/cuda/sim_driver/persistent_fences.txt",
    .run = [](WorldCode* code, uint64_t seed) {
      return std::make_unique<PersistentWorld>(code,
                                               PersistentConfigOf(seed, true))
          ->Run();
    }};

TEST(PersistentFencesTest, EachIsListedWithItsReason) {
  ExpectEachIsListed(kList);
}

TEST(PersistentFencesTest, WithoutOneThatMattersARunGoesWrong) {
  ExpectRunsGoWrong(kList, 400);
}

}  // namespace
}  // namespace carillon::gpud::cuda
