// Cases of GNoM's kernel.
#ifndef CARILLON_TOOLS_GPU_CHECK_GNOM_CASES_H_
#define CARILLON_TOOLS_GPU_CHECK_GNOM_CASES_H_

#include <vector>

#include "tools/gpu_check/case_parts.h"
#include "tools/gpu_check/kernel_cases.h"

namespace carillon::gpu_check {

void AddGnomCases(Random* random, std::vector<Case>* cases);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_GNOM_CASES_H_
