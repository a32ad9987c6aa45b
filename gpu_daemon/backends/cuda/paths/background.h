// Background kernels on CUDA: launched in streams by priority, as any CUDA
// program does; a thread sees them end.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BACKGROUND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BACKGROUND_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/paths/launch_gate.h"
#include "gpu_daemon/backends/cuda/paths/ptb_words.h"
#include "gpu_daemon/backends/cuda/paths/sliced_run.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/launch_filter.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

// Thread safe.
class Background : private Gpu::ContextUser {
 public:
  static absl::StatusOr<std::unique_ptr<Background>> Create(Gpu* gpu,
                                                            LaunchGate* gate);
  ~Background() override;  // stops

  // Ends exactly once, by on_end: with kNotLaunched if the driver refuses it.
  void Submit(std::unique_ptr<KernelLaunch> launch);
  // The launches that wait for a stream, or at the gate, end now, as aborted;
  // what the GPU has of the others goes on, and not again if their context is
  // lost.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);
  // Streams on the background's part of the SMs, for those that there are; those to
  // come have them from the beginning. The GPU is divided. Under a use, quiet.
  absl::Status PrepareForParts();
  // All that PrepareForParts() has made, also in part. Nothing was launched there.
  void DropParts();
  // Kernels that wait, by priority.
  std::array<uint32_t, kPriorities> waiting() const;
  // What runs, all of its blocks at once as far as is known here, and then what
  // waits, by priority.
  std::vector<LaunchProgress> launches() const;
  bool idle() const;
  uint64_t kernels() const { return kernels_.load(std::memory_order_relaxed); }
  uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  // No more; what waits is aborted, what runs is waited for.
  void Stop();

 private:
  // So many run at once; all streams of gpud together are few
  // (Context::kMaxStreams). A priority can always have one.
  static constexpr size_t kStreams = 8;
  static_assert(kStreams >= kPriorities);

  struct Waiting {
    std::unique_ptr<KernelLaunch> launch;
    std::unique_ptr<LaunchGate::Place> place;
    std::optional<SlicedRun> slices = std::nullopt;  // it was stopped under ptb
  };
  struct StreamSlot {
    Stream stream;
    uint32_t stream_priority = kPriorities;  // which the stream was made for
    // On the background's part of the SMs, where launches go by arrival; none where
    // `stream` is there, or while the GPU is not divided.
    Stream part_stream;
    bool on_part = false;                  // it was launched there
    std::unique_ptr<KernelLaunch> launch;  // what runs there
    std::unique_ptr<LaunchGate::Place> place;
    // Under gpes, if it has several; under ptb, if it has persistent blocks.
    std::optional<SlicedRun> slices;
    bool in_slices = false;          // so it was launched last
    bool queue_refused = false;      // by the driver, behind this slice
    uint32_t ptb_blocks = 0;         // as in HostLauncher::Flight
    bool between_slices = false;     // it waits at the gate
    uint64_t wave = 0;               // of its slices
    Nanoseconds waits_since_ns = 0;  // between slices
    bool launched = false;
    bool overdue = false;
    Nanoseconds launched_ns = 0;
  };
  struct Ended {
    std::unique_ptr<KernelLaunch> launch;
    shm::EventState state;
    uint32_t status;
  };

  Background(Gpu* gpu, LaunchGate* gate) : gpu_(gpu), gate_(gate) {}
  void Run();
  // True: it wants streams (MakeStreams()).
  bool Fill(std::vector<Ended>& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A stream of this priority in which nothing runs; nullptr: there is none.
  StreamSlot* FreeSlot(uint32_t priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where one more stream of this priority may be made; nullptr: nowhere, now.
  StreamSlot* SlotToMake(uint32_t priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t StreamsOf(uint32_t priority) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool APriorityHasTwoStreams() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that what waits wants. The driver may wait for an idle GPU to make one:
  // residents pause. At most two a slot in the life of a context.
  void MakeStreams();
  bool wants_part_streams() const {
    return gpu_->divided() && gpu_->reserved_sms() == 0;
  }
  absl::StatusOr<Stream> MakeStream(SmSet sms, uint32_t priority) const;
  // Where the slot's launch was put.
  static CUstream StreamOf(const StreamSlot& slot) {
    return slot.on_part ? slot.part_stream.get() : slot.stream.get();
  }
  absl::Status Start(StreamSlot& slot, LaunchGate::Grant grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Start(), and what follows if the driver refuses it. `slot` is among those
  // that run.
  void StartOrEnd(StreamSlot& slot, LaunchGate::Grant grant,
                  std::vector<Ended>& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The slot is free again.
  void EndLaunch(StreamSlot& slot, shm::EventState state, uint32_t status,
                 std::vector<Ended>& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAtSlice(StreamSlot& slot, std::vector<Ended>& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues the next slice behind the one that runs, if it is time for it, and
  // nobody waits who would be next.
  void QueueSlice(StreamSlot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of what is launched next, or behind one that runs.
  simt::EventFrame FrameOf(const StreamSlot& slot, uint64_t ended_slices) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Enters the slot's frame and launches all that is left as persistent blocks.
  CUresult LaunchPtb(StreamSlot& slot, const LaunchSequence& sequence,
                     simt::EventFrame frame, uint32_t resident)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ASliceRuns() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Two of a slot: a slice that is queued has the other one.
  shm::EcqEntry* CompletionOf(const StreamSlot& slot,
                              uint64_t ended_slices) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return completions_.as<shm::EcqEntry>() + 2 * (&slot - slots_.data()) +
           ended_slices % 2;
  }
  // Of what runs.
  shm::EcqEntry* CompletionOf(const StreamSlot& slot) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return CompletionOf(slot, slot.slices ? slot.slices->slices() : 0);
  }
  void Look(std::vector<Ended>& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What was launched first of what runs; nullptr: nothing.
  StreamSlot* Oldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static void Tell(std::vector<Ended>& ended);

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override;
  bool MarkOverdue(Nanoseconds since) override;
  // No gpud would run it again.
  void EndOverdue(bool) override {}

  Gpu* const gpu_;
  LaunchGate* const gate_;
  mutable Mutex mutex_;
  CondVar work_;
  std::array<std::deque<Waiting>, kPriorities> waiting_ ABSL_GUARDED_BY(mutex_);
  std::array<StreamSlot, kStreams> slots_ ABSL_GUARDED_BY(mutex_);
  DeviceBytes scratch_ ABSL_GUARDED_BY(mutex_);  // EventScratch, a slot each
  PinnedBytes completions_ ABSL_GUARDED_BY(mutex_);  // EcqEntry, a slot two
  PtbWords ptb_words_ ABSL_GUARDED_BY(mutex_);       // a slot each
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t replaying_ ABSL_GUARDED_BY(mutex_) = 0;
  // The driver has refused a stream: those that there are must do.
  bool no_more_streams_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Writers: callers of Submit(); readers: whoever shows them. Relaxed: figures.
  std::atomic<uint64_t> kernels_{0};
  std::atomic<uint64_t> blocks_{0};
  std::thread thread_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_BACKGROUND_H_
