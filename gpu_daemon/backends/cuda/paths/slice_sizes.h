// How large the slices of policy gpes are on CUDA, and which launches are not
// sliced, and why.
//
// A slice is as many blocks as the GPU holds at once, a wave, which the paper
// advises (GPES V-B). Where the operator bounds the wait of a more urgent launch
// (--preempt-us), it is as many waves as ended within that, less the time for which
// the slice before it is still there when it is queued, as measured on the slices
// before them; one wave at least, as a smaller one would leave SMs empty.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICE_SIZES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICE_SIZES_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud::cuda {

// Thread safe.
class SliceSizes {
 public:
  // More than the 12 us that an H200's CPU needs from a slice's end to the begin of
  // the next one that it launches then.
  static constexpr Nanoseconds kAheadNs = 30'000;

  // `gpu`: the SMs that launches may have. `bound_ns` 0: none, one wave.
  SliceSizes(const GpuModel& gpu, Nanoseconds bound_ns)
      : gpu_(gpu), bound_ns_(bound_ns) {}

  // The blocks that the GPU holds at once, of those of a slice; one at least.
  uint64_t WaveOf(const BlockCost& cost) const;

  // A launch begins under gpes. 0: it runs whole; else its first slice's blocks.
  // Its blocks do not wait for later ones: no kernel of kernels/ may, and a user's
  // is sliced until NoteWaits(). `why_whole`: its code has no slices.
  uint64_t First(const KernelMetadata& kmd, uint64_t wave,
                 std::optional<WholeReason> why_whole = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The blocks of a slice now.
  uint64_t Next(const KernelMetadata& kmd, uint64_t wave) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How long after the begin of a slice of so many blocks the next one may be
  // queued behind it, so that the GPU finds that at its end: kAheadNs before the
  // end, at most a slice. nullopt: not at all, as both together would take longer
  // than the bound, or nobody knows how long they take.
  std::optional<Nanoseconds> QueueAfter(const KernelMetadata& kmd,
                                        uint64_t wave, uint64_t blocks) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A slice of so many blocks took so long, its end's notice with it, and its
  // launch where it was not queued. nullopt: it is not known.
  void Ran(const KernelMetadata& kmd, uint64_t wave, uint64_t blocks,
           std::optional<Nanoseconds> took_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  // A slice of the kernel has not ended: its blocks may wait for those of later
  // slices. It runs whole from now on.
  void NoteWaits(const simt::KernelInfo& kernel) ABSL_LOCKS_EXCLUDED(mutex_);

  SliceFigures figures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Of one kernel in one shape, as its blocks take about as long as each other.
  using Key = std::tuple<const simt::KernelInfo*, uint32_t, uint32_t>;
  static Key KeyOf(const KernelMetadata& kmd) {
    return {kmd.kernel, kmd.threads(), kmd.shared_bytes};
  }

  uint64_t WavesNow(Nanoseconds wave_ns) const;

  const GpuModel gpu_;
  const Nanoseconds bound_ns_;
  mutable Mutex mutex_;
  std::map<Key, Nanoseconds> wave_ns_ ABSL_GUARDED_BY(mutex_);  // smoothed
  SliceFigures figures_
      ABSL_GUARDED_BY(mutex_);  // without those that ran whole
  std::set<const simt::KernelInfo*> waits_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kWholeReasons> whole_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICE_SIZES_H_
