// A task as narrow_tasks.cu takes it.
#ifndef CARILLON_TOOLS_BENCH_NARROW_RECORD_H_
#define CARILLON_TOOLS_BENCH_NARROW_RECORD_H_

#include <cstdint>
#include <span>
#include <string>

#include "tools/bench/narrow/narrow_tasks.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

// `data` and `status` are GPU addresses: of the workload's memory, and of the
// word that receives the kernel's status if it fails.
NarrowRecord RecordOf(const NarrowUnit& task, uint64_t data, uint64_t status);

// The fused launch of so many tasks, at least one: its kernel, and the threads of
// its blocks.
struct FusedLaunch {
  std::string kernel;
  uint32_t threads = 0;
};
FusedLaunch FusedLaunchOf(std::span<const NarrowRecord> tasks);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_RECORD_H_
