// Launch path `graph` on CUDA: the CPU polls the device and launches a graph
// that was instantiated when the event kernel was registered, one a slot; the
// kernel's epilogue tells the device.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GRAPH_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GRAPH_PATH_H_

#include <memory>

#include "gpu_daemon/backends/cuda/paths/host_launcher.h"

namespace carillon::gpud::cuda {

class GraphPath : public HostLauncher {
 public:
  GraphPath(Gpu* gpu, LaunchGate* gate);
  ~GraphPath() override;

 private:
  struct Graphs;

  absl::StatusOr<std::unique_ptr<Resources>> MakeResources(
      EventKernel& event) override;
  absl::Status AddForParts(EventKernel& event, Resources& resources) override;
  void RemoveForParts(Resources& resources) override;
  CUresult Enqueue(Resources& resources, Flight& flight) override;
  Outcome Look(Resources& resources, Flight& flight, bool stream_free) override;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GRAPH_PATH_H_
