// The resident blocks of launch path `persistent`, from their PTX, with a host
// and a device that do one thing at a time: a seed chooses all that happens, so
// that each run can be had again.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_PERSISTENT_WORLD_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_PERSISTENT_WORLD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/edge/persistent_block.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"
#include "gpu_daemon/event/test_device.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"

namespace carillon::gpud::cuda {

struct PersistentWorldConfig {
  uint64_t seed = 0;
  bool echoes = true;     // echo; or fail_if
  uint32_t grid = 2;      // blocks of an event
  uint32_t blocks = 2;    // that are resident: no more than these
  uint32_t threads = 32;  // of a block
  uint32_t entries = 4;
  uint32_t events = 12;
  uint32_t restarts = 1;  // the host ends the blocks and starts again so often
  // Unset: it changes all the time.
  std::optional<EdgeTracing> tracing;
  // The doorbell shows at times what no device may let it show; some never take
  // it back, and that is the end.
  bool jumps = false;
  // Turns without a completion after which it is stuck.
  uint64_t patience = 400'000;
  // As InterleavedGpu::Options.
  std::function<void(const sim::Warp&, const sim::Op&, sim::LaneMask)> executed;
};

// A world of each seed's own: how many of everything.
PersistentWorldConfig PersistentConfigOf(uint64_t seed, bool echoes);

class PersistentWorld {
 public:
  PersistentWorld(WorldCode* code, const PersistentWorldConfig& config);

  // Until each event has ended and the blocks have left. Errors: Internal, what
  // is wrong; Aborted, nothing happens any more.
  absl::Status Run();

 private:
  // --- The host.

  void Start();
  void HostStep();
  // The last event that has completed.
  uint64_t Ended() const;
  // What the report counts has completed, and all of that but one is counted.
  void CheckReport();
  // The blocks have left.
  void CheckEnd();

  // --- The device.

  void DeviceStep();
  // Takes and checks the oldest completion, if there is one.
  bool Consume();

  void Fail(std::string what);

  WorldCode* const code_;
  const PersistentWorldConfig config_;
  sim::SeededRandom random_;
  absl::Status failed_;
  WorldMemory memory_;
  TestDevice device_;
  std::optional<WorldRing> ring_;
  PersistentControl* control_ = nullptr;
  PersistentReport* report_ = nullptr;
  PersistentEntry* entry_ = nullptr;
  EdgeEntry edge_entry_;
  std::byte* copy_ = nullptr;
  simt::EventTotals totals_{};  // when the blocks left
  uint32_t tracing_ = 0;
  bool running_ = false;
  bool ending_ = false;  // the host has said so
  bool over_ = false;
  uint32_t restarts_ = 0;
  uint32_t jump_ = 0;  // by which the doorbell is wrong
  bool jump_stays_ = false;
  sim::InterleavedGpu gpu_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_PERSISTENT_WORLD_H_
