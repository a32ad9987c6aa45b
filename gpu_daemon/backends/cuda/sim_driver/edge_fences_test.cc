// Each fence of launch path edge's dispatcher is there for a reason: what goes
// wrong without it, or an argument (edge_fences.txt).
#include <gtest/gtest.h>

#include "gpu_daemon/backends/cuda/sim_driver/edge_world.h"
#include "gpu_daemon/backends/cuda/sim_driver/fence_list.h"

namespace carillon::gpud::cuda {
namespace {

const FenceList kList = {
    .function = "carillon_edge_dispatcher",
    .path = "gpu_daemon/backends/cuda/sim_driver/edge_fences.txt",
    .run = [](WorldCode* code, uint64_t seed) {
      return EdgeWorld(code, ConfigOf(seed)).Run();
    }};

TEST(EdgeFencesTest, EachIsListedWithItsReason) { ExpectEachIsListed(kList); }

TEST(EdgeFencesTest, WithoutOneThatMattersARunGoesWrong) {
  ExpectRunsGoWrong(kList, 400);
}

}  // namespace
}  // namespace carillon::gpud::cuda
