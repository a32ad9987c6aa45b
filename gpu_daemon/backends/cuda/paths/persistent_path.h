// Launch path `persistent` (EDGE II-D): every event kernel has resident thread
// blocks, which poll its doorbell, run its events one after another and complete
// them (persistent_block.h). What it shows is the price of that: blocks that
// wait hold their share of the GPU.
//
//   how many   as many as the grid has blocks, at most one an SM, and no more
//              than fit at once: they wait for each other. The path gives out
//              half of what each SM has (SmOccupancy, with the registers that
//              the driver names); the other half is everybody else's.
//   which      kernels that end by themselves. With barriers, those whose
//              threads leave together (KernelInfo::leaves_together): a resident
//              block is used again, so a thread that leaves early would meet the
//              others at the wrong barrier.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_

#include <memory>
#include <vector>

#include "gpu_daemon/backends/cuda/edge/persistent_block.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/ring_path.h"
#include "gpu_daemon/event/gpu_model.h"

namespace carillon::gpud::cuda {

class PersistentPath : public RingPath {
 public:
  // Errors: those of the driver.
  static absl::StatusOr<std::unique_ptr<PersistentPath>> Create(
      Gpu* gpu, Options options);
  ~PersistentPath() override;

  // Polls are the GPU's, some hundred at a time.
  std::vector<PathCounter> counters() const override;

 private:
  struct Blocks : Ring {
    explicit Blocks(SmOccupancy* of) : occupancy(of) {}
    ~Blocks() override {
      for (const uint32_t sm : sms) occupancy->Release(sm, cost);
    }

    SmOccupancy* const occupancy;
    BlockCost cost;
    std::vector<uint32_t> sms;  // of each resident block, as it is reckoned
    DeviceBytes entry;          // PersistentEntry
    DeviceBytes copy;           // of an ESQ entry
    CUfunction kernel = nullptr;
  };

  struct Words {
    PersistentControl control;
    PersistentReport reports[kMaxRings];
  };

  PersistentPath(Gpu* gpu, Options options);

  absl::Status CheckKernel(const EventKernel& event) const override;
  std::unique_ptr<Ring> NewRing() override;
  absl::Status Prepare() override;
  absl::Status PlaceRing(Ring& ring) override;
  absl::Status Begin(Ring& ring) override;
  simt::EventTotals Reported(const Ring& ring) override;
  void AskToEnd(Ring& ring) override;
  void ShowTracing() override;
  void FreeShared() override;
  void AbandonShared() override;
  void AbandonRing(Ring& ring) override;

  absl::Status TakeRoom(Blocks& blocks);

  HostWords<Words> words_;
  SmOccupancy occupancy_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_
