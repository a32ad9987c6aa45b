// Launch paths `baseline` and `baseline_flag` on CUDA: the CPU polls the device
// and launches every kernel, in 32 streams (EDGE II-B). With `baseline` it also
// polls for the kernel's end and then tells the device; with `baseline_flag` the
// kernel's epilogue does.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BASELINE_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BASELINE_PATH_H_

#include <memory>

#include "gpu_daemon/backends/cuda/paths/host_launcher.h"

namespace carillon::gpud::cuda {

class BaselinePath : public HostLauncher {
 public:
  enum class Completion { kEventPolling, kEpilogue };
  BaselinePath(Gpu* gpu, LaunchGate* gate, Completion completion);
  ~BaselinePath() override;

 private:
  struct Polled;

  absl::StatusOr<std::unique_ptr<Resources>> MakeResources(
      EventKernel& event) override;
  CUresult Enqueue(Resources& resources, Flight& flight) override;
  Outcome Look(Resources& resources, Flight& flight, bool stream_free) override;

  const Completion completion_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BASELINE_PATH_H_
