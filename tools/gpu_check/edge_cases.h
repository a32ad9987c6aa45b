// Cases of the background kernels of EDGE's figures.
#ifndef CARILLON_TOOLS_GPU_CHECK_EDGE_CASES_H_
#define CARILLON_TOOLS_GPU_CHECK_EDGE_CASES_H_

#include <vector>

#include "tools/gpu_check/case_parts.h"
#include "tools/gpu_check/kernel_cases.h"

namespace carillon::gpu_check {

void AddEdgeCases(Random* random, std::vector<Case>* cases);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_EDGE_CASES_H_
