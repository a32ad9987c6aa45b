// What the launch paths share whose kernels a CPU thread launches (baseline,
// baseline_flag, graph): who waits at the gate, who is in flight, how they end,
// and what becomes of them when the CUDA context is lost.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_LAUNCHER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/paths/launch_gate.h"
#include "gpu_daemon/backends/cuda/paths/ptb_words.h"
#include "gpu_daemon/backends/cuda/paths/sliced_run.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/launch_filter.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

class HostLauncher : public Launcher, private Gpu::ContextUser {
 public:
  ~HostLauncher() override;

  absl::Status Prepare(EventKernel& event) final;
  void Release(EventKernel& event) final;
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) final;
  bool Reap() final;
  bool must_poll() const final;

  // The events that `which` names and that wait at the gate end now, as aborted,
  // and those that run in slices when their slice has ended. None of them runs
  // again if its context is lost.
  // Returns when none of them is in flight; the front-end must go on reaping
  // meanwhile. A kernel that does not end is stopped after
  // Gpu::longest_kernel(), and so is this wait.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);

  // Streams and what else the events' part of the SMs needs, of those that are
  // prepared; those to come have it from the beginning. The GPU is divided. Under
  // a use, quiet.
  absl::Status PrepareForParts();
  // All that PrepareForParts() has made, also in part. Nothing was launched there.
  void DropParts();

  // The events that wait at the gate, or run in slices.
  std::vector<LaunchProgress> launches() const;

 protected:
  // Of each priority in use, and on the events' part of the SMs. All streams of
  // gpud together are few (Context::kMaxStreams).
  static constexpr size_t kStreams = 4;

  // What one event kernel needs in the context; a path adds its own.
  struct Resources {
    virtual ~Resources() = default;
    virtual void Abandon();

    LaunchSequence sequence;
    DeviceBytes scratch;      // EventScratch[entries]
    PinnedBytes completions;  // EcqEntry[entries], of what is gpud's to end
    PtbWords ptb_words;       // a slot each
  };

  // One launch, at the gate or in flight.
  struct Flight {
    std::shared_ptr<EventKernel> event;
    std::unique_ptr<LaunchGate::Place> place;
    Nanoseconds since_ns = 0;  // it came
    shm::Sequence sequence;
    KernelMetadata kmd;
    std::vector<std::byte> args;
    shm::EventLife life{};
    LaunchGate::Grant grant = LaunchGate::Grant::kNone;
    // Under gpes, if it has several; under ptb, if it has persistent blocks.
    std::optional<SlicedRun> slices;
    uint32_t ptb_blocks = 0;  // so many it was launched as; 0: not so
    // It ends at its slice's end, or with its context.
    std::optional<shm::EventStatus> cancelled;
    // Its stream: a row of streams_, and which of it.
    uint32_t row = 0;
    size_t stream = 0;
    bool launched = false;  // false: the context was lost first
    bool overdue = false;
    Nanoseconds launched_ns = 0;
    bool has_waited = false;  // behind another in its stream
    // Since when nothing has been before it in its stream; 0: something is, or
    // nobody has looked.
    Nanoseconds first_since_ns = 0;
  };

  // A subclass calls Begin() when it is complete, and End() before it is not
  // any more.
  HostLauncher(Gpu* gpu, LaunchGate* gate) : gpu_(gpu), gate_(gate) {}
  void Begin() { gpu_->Add(this); }
  void End() { gpu_->Remove(this); }

  // Under a use of the Gpu's, all of them.
  virtual absl::StatusOr<std::unique_ptr<Resources>> MakeResources(
      EventKernel& event) = 0;
  // Puts the kernel, and what tells its end, into the flight's stream.
  virtual CUresult Enqueue(Resources& resources, Flight& flight) = 0;
  // Adds what is needed to launch on the events' part of the SMs, where it is not
  // there.
  virtual absl::Status AddForParts(EventKernel&, Resources&) {
    return absl::OkStatus();
  }
  // The other way round.
  virtual void RemoveForParts(Resources&) {}
  enum class Outcome { kRuns, kEnded };
  // Whether the flight has ended; sees to it that its device knows.
  // `stream_free`: all before it in its stream has ended.
  virtual Outcome Look(Resources& resources, Flight& flight,
                       bool stream_free) = 0;

  // The part that all paths have.
  absl::Status FillIn(EventKernel& event, Resources& resources);
  simt::EventFrame FrameOf(const Flight& flight,
                           const Resources& resources) const;
  // gpud's own, in place of the ring's.
  static shm::EcqEntry& CompletionOf(const Flight& flight,
                                     const Resources& resources);
  CUstream StreamOf(const Flight& flight) const {
    return streams_[flight.row][flight.stream].get();
  }
  // Whether it was launched on the events' part of the SMs.
  static bool IsOnPart(const Flight& flight) { return flight.row == kPartRow; }
  Gpu& gpu() const { return *gpu_; }

 private:
  // Rows of streams: one a priority, and one of all priorities on the events' part
  // of the SMs, where launches go by arrival.
  static constexpr uint32_t kPartRow = kPriorities;
  static constexpr uint32_t kRows = kPartRow + 1;

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override;
  bool MarkOverdue(Nanoseconds since) override;
  void EndOverdue(bool marked) override;

  struct Tenancy {
    std::unique_ptr<Resources> resources;
    size_t in_flight = 0;
    bool released = false;  // gone with its last flight
    bool refused = false;   // by the driver, at some launch
  };

  using Tenancies = std::map<EventKernel*, Tenancy>;

  absl::Status TryPrepare(EventKernel& event);
  void FreeRetired();
  absl::Status Start(Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the gate lets begin, under a use. True: something has ended by it.
  bool StartWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReapFlights() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t WaveOf(const Resources& resources, const Flight& flight) const;
  CUresult EnqueueSlice(const Resources& resources, Flight& flight);
  // So many persistent blocks it is to run as; 0: as none.
  uint32_t PtbBlocks(const Resources& resources, const Flight& flight) const;
  // Of a flight that has Ended(): its slice's end. True: others are left, and
  // it waits at the gate.
  bool GoesOn(Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenStreams(uint32_t priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenRow(uint32_t row, SmSet sms, uint32_t priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether flights are the first of their streams, asked in their order.
  class FirstOfStream {
   public:
    bool operator()(const Flight& flight) const {
      return (busy_[flight.row] & 1u << flight.stream) == 0;
    }
    // It has not ended: those behind it are not.
    void Stays(const Flight& flight) {
      busy_[flight.row] |= 1u << flight.stream;
    }

   private:
    static_assert(kStreams <= 32);
    std::array<uint32_t, kRows> busy_{};  // a bit a stream
  };
  static void NotePlace(Flight& flight, bool is_first);
  // What has been the first of its stream for longest; nullptr: nothing is.
  Flight* OldestFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Ended(Flight& flight, bool stream_free)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a lost context leaves of a flight that was cancelled.
  static std::optional<Unfinished::End> CancelledEnd(const Flight& flight);
  void Land(const Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says in the log why an event ends as not launched, once an event kernel.
  void LogRefusal(const Flight& flight, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(Tenancies::iterator tenancy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Gpu* const gpu_;
  LaunchGate* const gate_;
  mutable Mutex mutex_;
  CondVar landed_;
  Tenancies tenancies_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Resources>> retired_
      ABSL_GUARDED_BY(mutex_);  // of event kernels gone
  std::array<std::array<Stream, kStreams>, kRows> streams_;
  std::deque<Flight> flights_
      ABSL_GUARDED_BY(mutex_);  // in the order of their launches
  std::deque<Flight> waiting_ ABSL_GUARDED_BY(mutex_);  // at the gate
  size_t next_stream_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_LAUNCHER_H_
