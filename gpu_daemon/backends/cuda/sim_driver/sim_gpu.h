// The simulated GPU behind the driver's functions: every kernel that runs, runs
// here, instruction by instruction, in one thread; a seed chooses which warp is
// next.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_SIM_GPU_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_SIM_GPU_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/memory.h"
#include "sim/exec/print_buffer.h"
#include "sim/exec/program.h"

namespace carillon::gpud::cuda {

// Thread safe.
class SimGpu {
 public:
  struct Options {
    uint64_t seed = 0;
  };
  explicit SimGpu(const Options& options);
  // Nothing runs any more.
  ~SimGpu();

  // Its addresses are the host's.
  sim::Memory& memory() { return memory_; }

  // Runs a launch to its end, or until it is stopped; CUDA_SUCCESS, or the fault
  // that it ends with, of which stderr tells.
  CUresult Run(KernelCall& call, const sim::Program& program,
               const sim::ProgramFunction& kernel);

 private:
  // One launch; the thread that waits for it owns it.
  struct Running {
    KernelCall* call = nullptr;
    sim::Launch launch;
    bool ended = false;
    absl::Status status;
  };

  void Loop();
  // The memory that kernels reach is what the driver says.
  void LookAtMemory(const KernelCall& call);
  uint32_t LaunchGraph(const sim::Warp& warp, uint64_t exec, uint64_t stream);

  sim::Memory memory_{sim::Addresses::kHost};

  std::mutex mutex_;
  sim::PrintBuffer printed_;
  std::condition_variable changed_;
  sim::InterleavedGpu gpu_;
  std::map<uint64_t, Running*> running_;  // by Launch::id
  uint64_t last_id_ = 0;
  uint64_t memory_seen_ = 0;
  std::map<const std::byte*, size_t> mapped_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_SIM_GPU_H_
