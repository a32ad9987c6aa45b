// The dispatchers of launch path `edge`, from their PTX, with a host and devices
// that do one thing at a time: a seed chooses all that happens, so that each run
// can be had again.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_EDGE_WORLD_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_EDGE_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/sim_driver/wire_clock.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"
#include "gpu_daemon/event/test_device.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"

namespace carillon::gpud::cuda {

struct WorldConfig {
  uint64_t seed = 0;
  uint32_t dispatchers = 2;
  uint32_t pollers = 1;
  uint32_t event_warps = 2;
  uint32_t budget = 3;       // what dispatchers are told
  uint32_t real_budget = 3;  // what an execution may launch
  uint32_t devices = 2;
  // Rings of each device: of echo and fail_if, each run by the event warps and
  // launched.
  uint32_t rings = 2;
  uint32_t launched_blocks = 2;  // of a launched kernel
  uint32_t entries = 4;          // of a ring
  uint32_t launch_slots = 4;     // of a ring: at most, and these
  uint32_t events = 12;          // of a ring
  uint32_t restarts = 1;         // the host halts and starts again so often
  bool tracing = true;
  // Ring 0 rings for more events than it has slots: it is closed, and nobody
  // else notices.
  bool violator = false;
  uint32_t failed_relaunches = 0;  // the first ones of all
  bool trap = false;  // the host says so at some time, and that is the end
  // Turns without a completion after which it is stuck.
  uint64_t patience = 400'000;
  // As InterleavedGpu::Options.
  std::function<void(const sim::Warp&, const sim::Op&, sim::LaneMask)> executed;
  // Time is what things cost, and the seed chooses nothing (TimeEvents()).
  bool timed = false;
};

// A world of each seed's own: how many of everything.
WorldConfig ConfigOf(uint64_t seed);

class EdgeWorld {
 public:
  EdgeWorld(WorldCode* code, const WorldConfig& config);
  ~EdgeWorld();

  // Until each event has ended and the dispatchers have left. Errors: Internal,
  // what is wrong; Aborted, nothing happens any more.
  absl::Status Run();

  // Requires `timed` and four rings. The ways of that many events of the first
  // device's fail_if, of one warp or, if launched, of two blocks. One is in
  // flight at a time; they ring at all points of the pollers' round. `early`:
  // their entries are committed so many nanoseconds before. Errors also: an event
  // that ended before it rang.
  absl::StatusOr<std::vector<WireTrip>> TimeEvents(bool launched,
                                                   uint32_t count,
                                                   double early = 0);

 private:
  struct Ring;
  struct Dispatcher;
  struct Exec {
    const Ring* ring = nullptr;
    simt::EventFrame* frame = nullptr;
    bool busy = false;  // launched and not retired
    uint32_t dispatcher = 0;
    uint64_t launch = 0;
  };

  // --- The GPU's side of graphs.

  uint32_t LaunchGraph(const sim::Warp& warp, uint64_t exec, uint64_t stream);
  void BeginDispatcher(uint32_t index);
  void BeginExec(size_t index);
  void DispatcherEnded(uint32_t index, absl::Status status);
  // What a GPU does by itself: begins what was launched, retires what has ended.
  void Advance();

  // --- The host.

  void MakeRing(uint32_t device, uint32_t kind);
  void MakeTable();
  void Start();
  void Say(EdgeCommand command);
  void HostStep();
  bool AllLeft() const;
  bool AllEnded() const;
  // Heads are as they must be, for a new start.
  void CheckHeads();
  void CheckTotals();

  // --- The devices.

  void DeviceStep(Ring& ring);

  // --- Time.

  sim::InterleavedGpu::Options GpuOptions();
  bool IsHost(uint64_t address) const;

  void Fail(std::string what);

  WorldCode* const code_;
  const WorldConfig config_;
  sim::SeededRandom random_;
  absl::Status failed_;
  WorldMemory memory_;

  EdgeControl* control_ = nullptr;
  EdgeReport* report_ = nullptr;
  EdgeTable* table_ = nullptr;
  std::vector<std::unique_ptr<TestDevice>> devices_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<Exec> execs_;
  std::vector<Dispatcher> dispatchers_;
  std::vector<std::function<void()>> pending_;  // of the GPU's own doing
  EdgeCommand command_ = EdgeCommand::kLeave;
  uint32_t restarts_ = 0;
  bool trapped_ = false;
  uint32_t failed_relaunches_ = 0;
  uint64_t completed_ = 0;
  uint64_t expected_ = 0;
  uint64_t last_launch_ = 0;  // Launch::id
  std::optional<WireClock> wire_;
  sim::InterleavedGpu gpu_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_EDGE_WORLD_H_
