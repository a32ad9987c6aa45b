// Resident thread blocks of a kernel of kernels, each a thread.
// Internal to this package.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PERSISTENT_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PERSISTENT_H_

#include "gpu_daemon/backends/cuda/fake/fake_state.h"

namespace carillon::gpud::cuda {

// Runs carillon_persistent_<name> until its blocks leave. A fate meets each
// event, not the launch.
CUresult RunPersistentForm(FakeGpu::State& state, Root& root,
                           const LaunchSpec& launch);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PERSISTENT_H_
