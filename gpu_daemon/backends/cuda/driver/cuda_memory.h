// The memory that kernels on a GPU reach: registered apertures, and buffers in
// the GPU's own memory.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CUDA_MEMORY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CUDA_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/event/kernel_memory.h"

namespace carillon::gpud::cuda {

// Thread safe. Objects that it has made must go before it, and it before the
// Gpu.
class CudaMemory : public KernelMemory, private Gpu::ContextUser {
 public:
  explicit CudaMemory(Gpu* gpu);
  ~CudaMemory() override;

  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override;
  // Stays at its address when the context is lost. Whether the bytes do is up
  // to the driver; otherwise they are zeros.
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override;
  // By the GPU's copy engine; kernels that stay on the GPU do not hold it up. Calls
  // of several threads are under way at once, so that no gap is between them.
  absl::Status Copy(CopyDirection direction, std::byte* to,
                    const std::byte* from, uint64_t bytes) override;
  uint64_t losses() const override { return gpu_->losses(); }

 private:
  class Mapping;
  class Block;

  // Of one copy at a time: what tells its end. All are in the default stream, since
  // streams are few, so that one begins as the one before ends.
  struct Lane {
    Event end;
    bool is_busy = false;
  };
  static constexpr size_t kLanes = 2;

  absl::Status Try(const std::function<absl::Status()>& action);
  // Under a use. Without one a copy is waited for in the driver.
  void MakeLanes();
  // nullptr: all are busy, or there is none.
  Lane* TakeLane();

  void Abandon() override;
  void TakeUnfinished(LostWork&) override {}
  absl::Status Settle() override;
  std::optional<Nanoseconds> OldestTaken(Nanoseconds) override {
    return std::nullopt;
  }
  bool MarkOverdue(Nanoseconds) override { return false; }
  void EndOverdue(bool) override {}

  Gpu* const gpu_;
  mutable Mutex mutex_;
  std::set<Mapping*> mappings_ ABSL_GUARDED_BY(mutex_);
  std::set<Block*> blocks_ ABSL_GUARDED_BY(mutex_);
  Mutex lanes_mutex_;
  std::array<Lane, kLanes> lanes_ ABSL_GUARDED_BY(lanes_mutex_);
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CUDA_MEMORY_H_
