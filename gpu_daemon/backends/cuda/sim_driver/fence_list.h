// A list of a kernel's fences, as plant_fences names them, each with what
// happens without it, and whether it is true.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCE_LIST_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCE_LIST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"

namespace carillon::gpud::cuda {

struct FenceList {
  std::string function;  // of gpud's module
  // Of the list. Where lists of several functions are in it, each begins with its
  // function's name in brackets.
  std::string path;
  // Runs the seed's world.
  std::function<absl::Status(WorldCode*, uint64_t seed)> run;
};

// Both report to gtest. Older toolkits have no fence.acquire, and what stands for
// it is listed nowhere: nothing is asked of them.
void ExpectEachIsListed(const FenceList& list);
// Without one that is listed as found, one of the first seeds goes wrong.
void ExpectRunsGoWrong(const FenceList& list, uint64_t seeds);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCE_LIST_H_
