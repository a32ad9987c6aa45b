// What launches of persistent blocks have in memory, a place each.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_WORDS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_WORDS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

class PtbWords {
 public:
  PtbWords() = default;
  static absl::StatusOr<PtbWords> Make(const Driver& driver, size_t places);

  // For a launch of the blocks from `first` on.
  simt::BlockSupply SupplyOf(size_t place, const simt::Dim3& grid,
                             uint64_t first) const {
    return {.grid = grid,
            .first = first,
            .taken = taken_.as<simt::BlocksTaken>() + place,
            .stop = stop(place),
            .ended = &words(place).ended};
  }
  // The host sets and clears it.
  uint32_t* stop(size_t place) const { return &words(place).stop; }
  // Behind the completion of the launch.
  uint64_t ended(size_t place) const { return words(place).ended; }

  void Abandon() {
    taken_.Abandon();
    words_.Abandon();
  }

 private:
  // Each polls its own line.
  struct alignas(64) Words {
    uint32_t stop;
    uint64_t ended;
  };
  Words& words(size_t place) const { return words_.as<Words>()[place]; }

  DeviceBytes taken_;
  PinnedBytes words_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_WORDS_H_
