#include "gpu_daemon/backends/cuda/sim_driver/fence_list.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/sim_driver/fences.h"

namespace carillon::gpud::cuda {
namespace {

// By the fence's name: what the list says.
std::map<std::string, std::string> Listed(const FenceList& list) {
  std::map<std::string, std::string> listed;
  std::ifstream file(list.path);
  EXPECT_TRUE(file.good()) << list.path;
  bool own = true;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) own = line == "[" + list.function + "]";
    const size_t bar = line.find(" | ");
    if (!own || line.starts_with('#') || bar == std::string::npos) continue;
    listed[line.substr(0, bar)] = line.substr(bar + 3);
  }
  return listed;
}

}  // namespace

void ExpectEachIsListed(const FenceList& list) {
  if (CUDA_VERSION < 13000) GTEST_SKIP() << "for toolkits from 13 on";
  const auto ptx = PtxOfFatbin(CudaModule().data());
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  const auto listed = Listed(list);
  std::set<std::string> names;
  for (const FenceSite& site : FindFences(*ptx, list.function)) {
    names.insert(site.name);
    EXPECT_TRUE(listed.contains(site.name))
        << site.name << ": take it out (plant_fences --function "
        << list.function << " --only) and list what happens in " << list.path;
  }
  for (const auto& [name, reason] : listed) {
    EXPECT_TRUE(names.contains(name)) << name << ": it is no longer there";
  }
}

void ExpectRunsGoWrong(const FenceList& list, uint64_t seeds) {
  if (CUDA_VERSION < 13000) GTEST_SKIP() << "for toolkits from 13 on";
  const auto ptx = PtxOfFatbin(CudaModule().data());
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  const auto listed = Listed(list);
  for (const FenceSite& site : FindFences(*ptx, list.function)) {
    const auto reason = listed.find(site.name);
    if (reason == listed.end() || reason->second != "found") continue;
    const auto code = WorldCode::Load(Weaken(*ptx, site));
    ASSERT_TRUE(code.ok()) << code.status();
    absl::Status status;
    for (uint64_t seed = 0; seed < seeds && status.ok(); ++seed) {
      status = list.run(code->get(), seed);
    }
    EXPECT_FALSE(status.ok()) << site.name;
    ::testing::Test::RecordProperty(site.name.substr(0, site.name.find(' ')),
                                    std::string(status.message()));
  }
}

}  // namespace carillon::gpud::cuda
