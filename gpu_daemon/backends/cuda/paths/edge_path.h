// Launch path `edge` on CUDA: the host's side of the resident dispatchers. They
// poll, launch and complete by themselves (edge_dispatch.h); the host fills in
// their tables, stops them (kHalt, kLeave) for every change of these, and
// watches them (resident_path.h).
//
// Inline only: a GPU that launches no graphs has one dispatcher, launched as an
// ordinary kernel. It runs events of one warp itself, and so never needs a
// launch, a budget, or another dispatcher; other kernels are refused.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"

namespace carillon::gpud::cuda {

class EdgePath : public ResidentPath {
 public:
  struct Options {
    bool tracing = false;
    OnViolation on_violation;
    uint32_t dispatchers = 3;
    uint32_t pollers = 2;
    uint32_t event_warps = 8;
    // Fire-and-forget launches of one execution of a dispatcher.
    uint32_t budget = kEdgeBudget;
    // What may pass before events that the dispatchers have taken end.
    std::chrono::milliseconds longest_kernel{10'000};
  };

  // Errors: those of the driver, but for a GPU that launches no graphs: see
  // notice().
  static absl::StatusOr<std::unique_ptr<EdgePath>> Create(Gpu* gpu,
                                                          Options options);
  ~EdgePath() override;

  // The dispatchers' own.
  std::vector<PathCounter> counters() const override;

  // What the dispatchers say of themselves; a copy of some milliseconds ago.
  EdgeFigures dispatch_figures() const;

 private:
  // One event kernel, and what only edge has of it on the GPU. Its index is 32 *
  // line + doorbell's place in it.
  struct Row : ResidentEvent {
    bool inlined = false;
    DeviceBytes ended;  // a sequence a slot
    DeviceBytes execs;  // two handles a slot
    std::vector<GraphExec> graphs;
    uint64_t inline_function = 0;
    // While the dispatchers are stopped: where they go on.
    std::array<EdgeHead, kEdgeMaxEventWarps> heads{};
  };

  EdgePath(Gpu* gpu, Options options);

  absl::Status CheckKernel(const EventKernel& event) const override;
  absl::StatusOr<ResidentEventPtr> NewResidentEvent(
      const EventKernel& event) override;
  absl::Status Prepare() override;
  absl::Status TryOut() override;
  absl::Status PlaceOwn(ResidentEvent& resident) override;
  absl::Status BeginAll() override;
  bool EndAll() override;
  void ShowTracing() override;
  void LookAtShared() override;
  bool LookAt(ResidentEvent& resident, Nanoseconds now) override;
  uint64_t OldestWaiting(ResidentEvent& resident) override;
  simt::EventTotals& Shown(uint32_t index) override {
    return report_->totals[index];
  }
  void FreeShared() override;
  void AbandonShared() override;
  void AbandonOwn(ResidentEvent& resident) override;
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override;
  void Trap() override { StoreWord(control_->trap, 1u); }

  bool inline_only() const { return !no_graphs_.empty(); }
  uint32_t dispatchers() const {
    return inline_only() ? 1 : options_.dispatchers;
  }
  // Before anything is registered: what the refusal of a dispatcher's graph
  // means.
  absl::Status DoWithoutGraphs(const absl::Status& refusal);
  absl::Status StartDispatchers();
  CUresult LaunchDispatcher(uint32_t dispatcher);
  absl::Status MakeGraphs(Row& row);
  absl::Status MakeInline(Row& row);
  void StartHeads(Row& row, uint64_t first);
  void FillIn(const Row& row, EdgeEntry& entry) const;
  void FillIn(EdgeTable& table) const;
  // The event kernel whose device has this line's doorbells; nullptr: it is
  // free.
  const EventKernel* OwnerOf(uint32_t line) const;
  std::optional<uint32_t> FreeIndex(const EventKernel& event) const;
  bool AllTakenHaveEnded() const;
  bool AllHaveLeft();
  // Why not all dispatchers are up or on their way back; empty: they are.
  std::string WhyLost();
  absl::Status FetchHeads();
  // Where the head of an event warp lies in the dispatchers' heads.
  size_t HeadOf(const Row& row, uint32_t warp) const;

  const Options options_;
  // Mapped for the GPU in every epoch; the host's words stay.
  HostWords<EdgeControl> control_;
  HostWords<EdgeReport> report_;

  // In the context.
  DeviceBytes table_;
  DeviceBytes entries_;
  DeviceBytes heads_;
  DeviceBytes totals_;
  std::array<Stream, kEdgeMaxDispatchers> streams_;
  std::array<GraphExec, kEdgeMaxDispatchers> dispatchers_;

  // Why it is inline only; empty: it is not. Written by Open() alone.
  std::string no_graphs_;
  bool opened_ = false;
  // Dispatchers that were launched since the last EndAll().
  uint32_t launched_ = 0;
  absl::Status begun_;  // what became of the last BeginAll()
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_
