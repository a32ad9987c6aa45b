// One entry of the event kernel table (EDGE III-C): what was registered, the
// ring that triggers it, and its ledger.
#ifndef CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_
#define CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/event_frame.h"
#include "shm/gpu_ring.h"
#include "shm/histogram.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::gpud {

// The stages of an event's life that are kept as histograms while tracing is
// on.
enum class Stage {
  kRungToSeen,
  kSeenToDispatched,
  kDispatchedToFinished,
  kRungToFinished
};
inline constexpr uint32_t kStages = 4;
std::string_view StageName(Stage stage);

struct EventCounts {
  uint64_t rung = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t aborted = 0;
  uint64_t refused = 0;  // among the failed: bad entries
};

// Made by the control plane, polled by the front-end, finished by whoever runs
// it. Threads: the front-end alone calls the launching side; Finish() and the
// figures are for any thread.
class EventKernel {
 public:
  struct Registration {
    KernelMetadata kmd;
    uint32_t priority = 0;
    bool modifyable = false;
    std::string label;
    std::string_view launch_path;  // a LaunchPathInfo's, or a literal
    ArgumentPlan arguments;
    // Events up to this sequence were an earlier gpud's, and have ended.
    uint64_t ended_before = 0;
  };

  // The layout was placed by the control plane in memory's apertures; its ECQ
  // must be zeroed.
  EventKernel(Registration registration, std::shared_ptr<DeviceMemory> memory,
              const shm::RingLayout& layout, uint32_t ekt_index);

  const KernelMetadata& kmd() const { return registration_.kmd; }
  uint32_t priority() const { return registration_.priority; }
  bool modifyable() const { return registration_.modifyable; }
  const std::string& label() const { return registration_.label; }
  std::string_view launch_path() const { return registration_.launch_path; }
  const ArgumentPlan& arguments() const { return registration_.arguments; }
  uint64_t ended_before() const { return registration_.ended_before; }
  const DeviceMemory& memory() const { return *memory_; }
  const std::shared_ptr<DeviceMemory>& shared_memory() const { return memory_; }
  const shm::GpuRing& ring() const { return ring_; }
  uint32_t ekt_index() const { return ekt_index_; }
  uint32_t event_id() const { return ring_.layout().doorbell.value(); }

  // Before its doorbell is polled: kernels store their completions themselves,
  // so that the device may know of an end before gpud does.
  void ExpectEpilogues() { ends_itself_ = true; }

  // Records every end that this object brings about or notes; null: none.
  // Before its doorbell is polled; the recorder outlives this object.
  void RecordIn(shm::FlightRecorder* recorder) { recorder_ = recorder; }
  // Whether no event ends without Finish().
  bool finishes_all() const {
    return !ends_itself_ &&
           gpu_totals_.load(std::memory_order_relaxed) == nullptr;
  }

  // A GPU launches, and counts: figures come from `totals`, which it updates
  // word by word, until TakeBack(). They begin with FirstTotals(). Before its
  // doorbell is polled.
  void FollowTotals(const simt::EventTotals* totals) {
    gpu_totals_.store(totals, std::memory_order_release);
  }
  // The GPU has stopped, and all that it took has ended: `totals` are exact.
  // Rings that it did not take count as in flight from now on.
  void TakeBack(const simt::EventTotals& totals);
  // By the completions, which a GPU may store in any order within a ring.
  uint64_t LastEnded() const;
  // The last event rung that a GPU may have taken: as the doorbell says it,
  // unless that is not within the ring after the last that has ended.
  uint64_t LastRung() const;
  // Events rung so far, by the doorbell alone; `taken` of them were launched.
  uint64_t RungOf(uint64_t taken) const;
  // What the doorbell would have shown before the first event.
  uint32_t first_ring() const { return first_ring_; }
  // An earlier gpud's events count as done here, and in no figure of ours.
  simt::EventTotals FirstTotals() const {
    simt::EventTotals totals{};
    totals.launched = ended_before();
    totals.done = ended_before();
    return totals;
  }

  // --- Launching side: the front-end's thread only.

  struct Pending {
    uint32_t rings = 0;
    // The device's mistake: more rings than free slots, or, if `went_back`, so
    // many fewer than were seen before.
    bool violation = false;
    bool went_back = false;
  };
  // Rings (doorbell and scheduled) not yet launched.
  Pending PendingRings();
  // The next ring's sequence; counts it as launched.
  shm::Sequence TakeRing();

  // --- Any thread.

  // edgeScheduleEvent: rings up to sequence `through`, once, however often it
  // is said and whether or not the doorbell says so too. One thread at a time.
  // False: beyond what the ring can hold.
  bool ScheduleThrough(uint64_t through);
  struct Ending {
    shm::EventState state = shm::EventState::kDone;
    uint32_t status = 0;
    bool refused = false;                  // a bad entry: nothing of it ran
    const shm::EventLife* life = nullptr;  // while tracing
  };
  // Ends an event: exactly one call per sequence has an effect and returns
  // true. The caller then signals the device's bell.
  bool Finish(shm::Sequence sequence, const Ending& ending);
  // Takes note of an event that its kernel's epilogue has ended; false if there
  // is no such completion yet.
  bool NoteEnded(shm::Sequence sequence);
  // Ends every launched event that has not ended as aborted. Returns how many.
  // Afterwards nothing is in flight: waits for a Finish() that is under way in
  // another thread. Launching must have ended.
  uint64_t AbortUnfinished(shm::EventStatus why);

  EventCounts counts() const;
  uint64_t launched() const {
    const simt::EventTotals* totals =
        gpu_totals_.load(std::memory_order_acquire);
    return totals == nullptr ? launched_.load(std::memory_order_relaxed)
                             : TakenBy(*totals);
  }
  // Events ended in order, for display: while events end, it may be late.
  uint64_t ended_in_order() const;
  // The same, as last seen by the front-end: it looks when the doorbell rings.
  uint64_t completed_in_order() const {
    return completed_.load(std::memory_order_relaxed);
  }
  uint64_t in_flight() const;
  // Rings that were not launched when this looked.
  uint32_t waiting_rings() const {
    // The launched ones first, so that it is never negative.
    const uint32_t waiting = RingsBeyond(launched());
    return waiting <= ring_.layout().entries ? waiting : 0;
  }
  // The last failure, for telemetry; all 0 before the first.
  struct Failure {
    uint64_t sequence = 0;
    uint32_t status = 0;
  };
  Failure last_failure() const;
  shm::HistogramSnapshot stage(Stage stage) const;
  void ResetStages();

  // Whether launches that need it get KernelInfo::validate(): not if nothing
  // can change after registration.
  bool validate_each_launch() const { return validate_each_launch_; }

  // Whether a launch of this shape may run in the front-end's thread. The
  // front-end remembers how long this kernel takes there: the shortest of the
  // last few samples, so that being descheduled once does not count. A kernel
  // whose length is an argument never runs there: nothing can stop it.
  bool takes_short_path(const KernelMetadata& shape) const {
    return shape.single_warp() && !shape.kernel->unbounded &&
           short_path_ns_.load(std::memory_order_relaxed) <= kMaxShortPathNs;
  }
  // Of the first launches each, then of one in kSampleEvery: two looks at the
  // clock cost as much as a small kernel.
  bool wants_sample() const {
    return launched() - ended_before() <= short_path_samples_.size() ||
           launched() % kSampleEvery == 1;
  }
  void AddShortPathSample(Nanoseconds duration);

 private:
  // One event's end, for whoever brings it about. The state and the sequence are
  // one word: who still holds an earlier lap's sequence gets nothing.
  class Slot {
   public:
    void Launch(shm::Sequence sequence) {
      word_.store(Word(sequence, kLaunched), std::memory_order_relaxed);
    }
    // True: the caller alone completes the event.
    bool TakeOver(shm::Sequence sequence) {
      uint64_t launched = Word(sequence, kLaunched);
      return word_.compare_exchange_strong(launched, Word(sequence, kFinishing),
                                           std::memory_order_acq_rel);
    }
    void Finish(shm::Sequence sequence) {
      word_.store(Word(sequence, kFinished), std::memory_order_release);
    }
    bool IsFinished(shm::Sequence sequence) const {
      return word_.load(std::memory_order_acquire) == Word(sequence, kFinished);
    }

   private:
    static constexpr uint64_t kLaunched = 1;
    static constexpr uint64_t kFinishing = 2;
    static constexpr uint64_t kFinished = 3;
    static uint64_t Word(shm::Sequence sequence, uint64_t state) {
      return sequence.value() << 2 | state;
    }

    // Writers: the front-end (launched), whoever finishes the event; readers:
    // they, and the front-end, which counts what is finished in order.
    std::atomic<uint64_t> word_{0};
  };

  // A longer kernel would keep the other doorbells waiting: it goes to a
  // worker.
  static constexpr Nanoseconds kMaxShortPathNs = 100'000;
  static constexpr uint64_t kSampleEvery = 16;

  void CompleteThroughFaults(shm::Sequence sequence, const Ending& ending);
  // Events that a GPU has taken, refused ones among them.
  static uint64_t TakenBy(const simt::EventTotals& totals);
  void AddToStages(const shm::EventLife& life);
  void NoteFailure(shm::Sequence sequence, shm::EventState state,
                   uint32_t status);
  void Record(shm::Step step, shm::Sequence sequence, shm::EventState state,
              uint32_t status) {
    if (recorder_ == nullptr) [[likely]]
      return;
    recorder_->Record(step, event_id(), ring_.layout().generation,
                      sequence.value(), state, status);
  }
  void Count(shm::EventState state);

  Slot& SlotFor(shm::Sequence sequence) {
    return slots_[ring_.layout().SlotOf(sequence)];
  }
  void AdvanceCompleted();
  // How far the doorbell is behind what it has shown before.
  uint32_t WentBack() const;
  // How far the doorbell or edgeScheduleEvent, whichever is later, is ahead of
  // event `launched`; far more than the ring's entries if the doorbell is
  // where no device that keeps to the protocol leaves it.
  uint32_t RingsBeyond(uint64_t launched) const;

  const Registration registration_;
  const std::shared_ptr<DeviceMemory> memory_;
  const shm::GpuRing ring_;
  const uint32_t ekt_index_;
  const bool validate_each_launch_;
  bool ends_itself_ = false;  // see ExpectEpilogues()
  shm::FlightRecorder* recorder_ = nullptr;

  const uint32_t first_ring_;
  std::array<Nanoseconds, 4> short_path_samples_{};
  uint32_t short_path_count_ = 0;
  // Writer: the front-end; readers: it, and whoever shows it. Relaxed: it
  // stands for itself.
  std::atomic<Nanoseconds> short_path_ns_{0};

  // The last event that edgeScheduleEvent has named. Writer: the control plane;
  // reader: the front-end. Release, acquire: the entries that the device wrote
  // before it called are there.
  std::atomic<uint64_t> scheduled_{0};
  // Writer: the front-end; readers: any thread, for the figures. Relaxed: what
  // a launch needs goes to its worker under the KMU's lock.
  std::atomic<uint64_t> launched_;
  std::atomic<uint64_t> completed_;
  std::vector<Slot> slots_;

  // Writers: whoever finishes an event; readers: any thread. The first three
  // are added to last, with release: who reads them with acquire and finds
  // nothing in flight finds nobody writing to the ring.
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> aborted_{0};
  std::atomic<uint64_t> refused_{0};  // relaxed: precedes its failed_
  // Tracing was on at some time. Writers and readers: whoever finishes an
  // event. Relaxed: the slot's state orders one lap's life before the next.
  std::atomic<bool> has_lives_{false};
  // Where a GPU counts, if it does. Writer: the launch path, before and after
  // the GPU polls; readers: any thread. Release, acquire: what it leads to.
  std::atomic<const simt::EventTotals*> gpu_totals_{nullptr};
  // The last failure: the low half of its sequence, then its status, in one
  // word, since several threads store it. Writers: whoever finishes an event;
  // readers: any thread. Release, acquire: the reader's launched() counts that
  // event.
  std::atomic<uint64_t> last_failure_{0};
  // Writers: whoever finishes an event, ResetStages(); readers: any thread.
  // Relaxed: figures for display.
  std::array<std::vector<std::atomic<uint64_t>>, kStages> stages_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_
