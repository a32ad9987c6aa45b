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

// How long something takes on one SM. The clock's ticks become times by the two
// sums over the whole kernel.
struct CostResult {
  uint64_t least_ticks;
  uint64_t sum_ticks;
  uint64_t ticks;
  uint64_t ns;
};

// What probe_fence measures, and what is on its way when it does.
enum class Fence : uint32_t {
  kNothing,  // the clock alone
  kAcqRelSys,
  kAcquireSys,  // toolkits before 13 do not have it; then as kNothing
  kStoreReleaseSys,
  kAcqRelGpu,
  kLoadL2,
  kExchange,
  kStoreHost,
};
enum class Outstanding : uint32_t { kNothing, kStore, kAdd, kHostStore };

// What probe_beside measures, and where two warps read host memory meanwhile.
enum class Beside : uint32_t {
  kStoreReleaseSys,
  kAcqRelGpu,
  kReadSector,  // of the host: of the line that they read, its first sector
  kReadLine,    // and another one
  kReadOther,   // another line
};
enum class Neighbours : uint32_t { kNone, kSameSm, kOtherSm };

struct RateResult {
  uint64_t first_ns;
  uint64_t last_ns;
  uint32_t launched;
  uint32_t error;
};

struct StartResult {
  uint64_t call_ticks;
  uint64_t seen_ticks;
  uint64_t ticks;
  uint64_t ns;
  uint32_t error;
  uint32_t padding;
};

struct TimerResult {
  uint64_t least_step_ns;
  uint64_t steps;
  uint64_t ns;
};

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_TYPES_H_
