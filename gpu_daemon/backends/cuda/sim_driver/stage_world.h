// Launch path `stream_wait`'s streams, from their kernels' PTX: carillon_stage_entry
// and the event kernel behind it, whose epilogue completes the event; with a host
// and a device that do one thing at a time. A seed chooses all that happens, so that
// each run can be had again.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_STAGE_WORLD_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_STAGE_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"
#include "gpu_daemon/event/test_device.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"

namespace carillon::gpud::cuda {

struct StageWorldConfig {
  uint64_t seed = 0;
  uint32_t rings = 3;     // of echo, fail_if, matmul, and so on
  uint32_t blocks = 2;    // of an event
  uint32_t threads = 32;  // of a block, but for matmul
  uint32_t entries = 4;
  uint32_t events = 12;  // of a ring
  uint32_t restarts =
      1;  // the host lets the streams go so often, and arms anew
  // Unset: it changes all the time.
  std::optional<EdgeTracing> tracing;
  // The device looks for completions all the time: what comes too late shows.
  bool eager = false;
  // Some entries are written while their event runs, in pieces.
  bool torn = false;
  // Ring 0 rings for more events than it has slots: what it has not written is
  // refused, it is not armed again, and nobody else notices.
  bool violator = false;
  // Turns without a completion after which it is stuck.
  uint64_t patience = 400'000;
  // As InterleavedGpu::Options.
  std::function<void(const sim::Warp&, const sim::Op&, sim::LaneMask)> executed;
};

// A world of each seed's own: how many of everything.
StageWorldConfig StageConfigOf(uint64_t seed);

class StageWorld {
 public:
  StageWorld(WorldCode* code, const StageWorldConfig& config);
  ~StageWorld();

  // Until each event has ended and the streams are idle. Errors: Internal, what
  // is wrong; Aborted, nothing happens any more.
  absl::Status Run();

 private:
  struct Stream;

  // --- The streams.

  // Their heads go on: waits end, kernels begin.
  void Advance(Stream& stream);
  void Begin(Stream& stream, sim::Launch launch,
             std::optional<sim::WeakMemory::Time> since);
  void BeginStage(Stream& stream, uint64_t sequence);
  void BeginKernel(Stream& stream, uint64_t sequence);

  // --- The host, as StreamWaitEngine.

  void HostStep();
  void LookAt(Stream& stream);
  void BeginStream(Stream& stream);
  void Arm(Stream& stream);
  void AskToEnd(Stream& stream);
  void MoveDoorbell(Stream& stream);
  void MoveDoorbellBack(Stream& stream);
  void ShowTracing();
  // What the streams leave when they are idle.
  void CheckIdle(Stream& stream);
  bool IsOver() const;

  // --- The device.

  void DeviceStep(Stream& stream);
  void Commit(Stream& stream);
  void CommitTorn(Stream& stream);
  void Consume(Stream& stream);

  void Fail(std::string what);

  WorldCode* const code_;
  const StageWorldConfig config_;
  sim::SeededRandom random_;
  absl::Status failed_;
  WorldMemory memory_;
  TestDevice device_;
  std::vector<std::unique_ptr<Stream>> streams_;
  bool ending_ = false;  // the host lets the streams go
  bool over_ = false;
  uint32_t restarts_ = 0;
  uint64_t consumed_ = 0;
  sim::InterleavedGpu gpu_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_STAGE_WORLD_H_
