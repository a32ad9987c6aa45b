// Runs one thread block on the calling core.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_

#include <cstdint>
#include <string_view>

#include "gpu_daemon/event/block_runner.h"

namespace carillon::gpud {

// The kernel's own code for CPUs (KernelInfo::run_block); the block's shared
// memory comes from an arena of the calling thread.
void RunBlock(const KernelMetadata& kmd, uint64_t block, const void* args,
              uint32_t* fail_status);

class CpuBlockRunner final : public BlockRunner {
 public:
  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           LaunchRun* run) override {
    RunBlock(kmd, block, args, &run->fail_status);
  }
};

// A line of the log about events that failed, for all such lines together a few
// a second.
void LogEventFailure(std::string_view message);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_
