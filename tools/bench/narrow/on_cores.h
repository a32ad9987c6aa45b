// Narrow tasks by plain threads on this machine's cores, in wall time.
#ifndef CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_
#define CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

// `threads` threads take the tasks in their order and run each as the cpu
// back-end does. Errors: DataLoss (a wrong result), Internal (a kernel failed).
absl::StatusOr<NarrowOutcome> RunByThreads(const NarrowWorkload& workload,
                                           uint32_t threads);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_
