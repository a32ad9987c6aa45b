// MemcachedGPU's lookups without a network (gnom_offline) on a gpud of their own.
#ifndef CARILLON_TOOLS_GPU_CHECK_LOOKUPS_H_
#define CARILLON_TOOLS_GPU_CHECK_LOOKUPS_H_

#include <span>
#include <string>

namespace carillon::gpu_check {

// Prints what gnom_offline prints, and a finding: millions of requests a second of
// each contender, by round. Returns its exit code; 1 if gpud does not come up.
int RunLookups(const std::string& gpud, const std::string& gnom_offline,
               std::span<const std::string> arguments);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_LOOKUPS_H_
