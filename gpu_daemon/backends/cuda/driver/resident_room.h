// What the kernels that stay keep of the GPU's SMs: one account for all launch
// paths. It is asked before such a kernel starts, as blocks that find no room would
// wait for others that never leave.
//
// Reckoned as a GPU does it: each block goes to the SM with the fewest blocks of
// those that have enough threads, registers and shared memory left. What comes and
// goes beside them (background kernels, launches) is not in the account.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_RESIDENT_ROOM_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_RESIDENT_ROOM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/event/gpu_model.h"

namespace carillon::gpud::cuda {

// Thread safe. Outlives what it gives out.
class ResidentRoom {
 public:
  // Room for some thread blocks of one size, held until this goes. One thread at a
  // time.
  class Held {
   public:
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    uint32_t blocks() const { return static_cast<uint32_t>(sms_.size()); }
    // Room for `blocks` (at least 1), or for as many as there is room for; what is
    // held already stays, as far as it is wanted. Returns blocks().
    uint32_t Resize(uint32_t blocks);

   private:
    friend class ResidentRoom;
    Held(ResidentRoom* room, std::string path, const BlockCost& cost,
         const SmRange& range)
        : room_(*room), path_(std::move(path)), cost_(cost), range_(range) {}

    ResidentRoom& room_;
    const std::string path_;
    const BlockCost cost_;
    const SmRange range_;
    // The SM of each block, as it is reckoned. Writer: whoever has the room's lock.
    std::vector<uint32_t> sms_;
  };

  explicit ResidentRoom(const GpuModel& gpu) : occupancy_(gpu) {}

  // Room for `most` blocks on these SMs, or for fewer, but at least `least`, for
  // the launch path of that name. Errors: ResourceExhausted, which names who
  // holds what.
  absl::StatusOr<std::unique_ptr<Held>> Take(std::string_view path,
                                             const BlockCost& cost,
                                             uint32_t least, uint32_t most,
                                             const SmRange& sms);

 private:
  void Resize(Held& held, uint32_t blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Holders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  SmOccupancy occupancy_ ABSL_GUARDED_BY(mutex_);
  std::vector<const Held*> holders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_RESIDENT_ROOM_H_
