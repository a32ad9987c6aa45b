// One launch that runs in slices, one after another, or as persistent blocks that
// leave in between: how far it has come. What has not run is a range of blocks, so
// it can stop and go on at every end, and nothing is lost or runs twice by it.
// Behind the slice that runs another one may be queued, in its stream.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICED_RUN_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICED_RUN_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "shm/layout.h"

namespace carillon::gpud::cuda {

// Under its owner's lock.
class SlicedRun {
 public:
  // The next slice of at most `most` blocks; again, if its launch has come to
  // nothing. It completes with sequence().
  const GridSlice& Begin(const simt::Dim3& grid, uint64_t most) {
    Begin();
    return slice_.emplace(NextSlice(grid, next_, most));
  }
  // The slice behind the one that Begin() gave, which has not ended; at most one,
  // and only where HasMore(). It completes with queued_sequence(), elsewhere than
  // the one before it: nobody may have looked at that when this one ends.
  const GridSlice& Queue(const simt::Dim3& grid, uint64_t most) {
    queued_.emplace(
        Queued{NextSlice(grid, next_ + slice_->blocks(), most), NewSequence()});
    return queued_->slice;
  }
  // Its launch has come to nothing.
  void Unqueue() { queued_.reset(); }
  bool has_queued() const { return queued_.has_value(); }
  uint64_t queued_sequence() const { return queued_->sequence; }
  // Whether blocks are left behind the slice that runs, which is the last one.
  bool HasMore(const simt::Dim3& grid) const {
    return slice_ && !queued_ && next_ + slice_->blocks() < grid.count();
  }
  Nanoseconds began_ns() const { return began_ns_; }
  // The same of all that is left, as persistent blocks, from ended_blocks() on.
  void BeginPtb() {
    Begin();
    slice_.reset();
  }
  uint64_t sequence() const { return sequence_; }

  // Whether the slice has ended: its last block has stored that.
  bool HasEnded(const shm::EcqEntry& completion) const {
    return IsThere(completion, sequence_);
  }
  bool QueuedHasEnded(const shm::EcqEntry& completion) const {
    return queued_ && IsThere(completion, queued_->sequence);
  }
  // Takes its end over, once; then the queued one is the one that runs. `ended` of
  // persistent blocks: BlockSupply::ended. `late`: the queued one has ended, too.
  // Returns how long it took; nullopt: it is not known, as it was seen late.
  std::optional<Nanoseconds> End(const shm::EcqEntry& completion,
                                 uint64_t ended, bool late = false) {
    const uint64_t before =
        std::exchange(next_, slice_ ? next_ + slice_->blocks() : ended);
    most_at_once_ = std::max(most_at_once_, next_ - before);
    ++slices_;
    // All blocks run whatever the others do, as in a whole launch; the first
    // failure is the launch's.
    if (state_ == shm::EventState::kDone) {
      state_ = completion.state;
      status_ = completion.status;
    }
    const Nanoseconds now = NowNs();
    std::optional<Nanoseconds> took;
    if (!late && !began_late_) took = now - began_ns_;
    began_late_ = false;
    if (queued_) {
      slice_ = queued_->slice;
      sequence_ = queued_->sequence;
      queued_.reset();
      began_ns_ = now;
      began_late_ = late;
    }
    return took;
  }

  // nullopt: persistent blocks.
  const std::optional<GridSlice>& slice() const { return slice_; }
  uint64_t ended_blocks() const { return next_; }
  uint64_t slices() const { return slices_; }
  // The most blocks that have run, or run, as one launch with a time of its own. 0:
  // persistent blocks that were never stopped.
  uint64_t most_at_once() const {
    return std::max({most_at_once_, slice_ ? slice_->blocks() : 0,
                     queued_ ? queued_->slice.blocks() : 0});
  }
  shm::EventState state() const { return state_; }
  uint32_t status() const { return status_; }

 private:
  struct Queued {
    GridSlice slice;
    uint64_t sequence;
  };
  // Unlike those of all slices before it, whoever had that completion, and those of
  // events and of whole launches.
  static uint64_t NewSequence() {
    static std::atomic<uint64_t> sequences{uint64_t{1} << 63};
    return sequences.fetch_add(1, std::memory_order_relaxed);
  }
  static bool IsThere(const shm::EcqEntry& completion, uint64_t sequence) {
    return std::atomic_ref(const_cast<uint64_t&>(completion.sequence))
               .load(std::memory_order_acquire) == sequence;
  }
  void Begin() {
    sequence_ = NewSequence();
    queued_.reset();
    began_ns_ = NowNs();
    began_late_ = false;
  }

  std::optional<GridSlice> slice_;
  std::optional<Queued> queued_;
  uint64_t next_ = 0;  // the first block that has not run, or runs
  uint64_t slices_ = 0;
  uint64_t most_at_once_ = 0;
  uint64_t sequence_ = 0;
  Nanoseconds began_ns_ = 0;
  bool began_late_ = false;  // before that, nobody knows when
  shm::EventState state_ = shm::EventState::kDone;
  uint32_t status_ = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SLICED_RUN_H_
