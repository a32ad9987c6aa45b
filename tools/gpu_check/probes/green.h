// Parts of a GPU's SMs, and green contexts on them.
#ifndef CARILLON_TOOLS_GPU_CHECK_PROBES_GREEN_H_
#define CARILLON_TOOLS_GPU_CHECK_PROBES_GREEN_H_

#include <cstdint>

#include "tools/gpu_check/probes/probe.h"

namespace carillon::gpu_check {

// What a split of all SMs gives: a part and the rest.
struct Split {
  CUresult result = CUDA_SUCCESS;
  uint32_t part = 0;
  uint32_t rest = 0;
  CUdevResource resources[2];
};

inline CUdevResource AllSms(const Kit& kit) {
  CUdevResource all = {};
  kit.Must(kit.driver().cuDeviceGetDevResource(kit.device(), &all,
                                               CU_DEV_RESOURCE_TYPE_SM),
           "ask for the GPU's SMs");
  return all;
}

inline Split SplitSms(const Kit& kit, const CUdevResource& all, uint32_t flags,
                      uint32_t least) {
  Split split;
  unsigned groups = 1;
  split.result = kit.driver().cuDevSmResourceSplitByCount(
      &split.resources[0], &groups, &all, &split.resources[1], flags, least);
  if (split.result == CUDA_SUCCESS) {
    split.part = split.resources[0].sm.smCount;
    split.rest = split.resources[1].sm.smCount;
  }
  return split;
}

inline CUgreenCtx MakeGreen(const Kit& kit, CUdevResource resource) {
  CUdevResourceDesc description = nullptr;
  kit.Must(kit.driver().cuDevResourceGenerateDesc(&description, &resource, 1),
           "describe a part of the SMs");
  CUgreenCtx green = nullptr;
  kit.Must(kit.driver().cuGreenCtxCreate(&green, description, kit.device(),
                                         CU_GREEN_CTX_DEFAULT_STREAM),
           "make a green context");
  return green;
}

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PROBES_GREEN_H_
