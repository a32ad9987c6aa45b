// What the probes' kernels write to device memory, for nvcc and g++.
#ifndef CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_TYPES_H_
#define CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_TYPES_H_

#include <cstdint>

namespace carillon::gpu_check {

struct FireResult {
  uint32_t launched;
  uint32_t error;  // cudaError_t
  uint32_t executions;
  uint32_t relaunch_error;
};

struct BusyResult {
  uint64_t done_ns;
  uint64_t sum_ns;
  uint64_t most_ns;
  uint32_t launches;
  uint32_t refused;   // launches that were refused at least once
  uint32_t refusals;  // attempts
  uint32_t error;
};

struct TailResult {
  uint64_t end_ns;
  uint64_t sum_ns;
  uint64_t most_ns;
  uint32_t executions;
  uint32_t error;
};

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_TYPES_H_
