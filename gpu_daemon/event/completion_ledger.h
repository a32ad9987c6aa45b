// Ends an event kernel's events, each exactly once, whoever tries to, and counts how they ended.
#ifndef CARILLON_GPU_DAEMON_EVENT_COMPLETION_LEDGER_H_
#define CARILLON_GPU_DAEMON_EVENT_COMPLETION_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/stage_histograms.h"
#include "kernels/simt/event_frame.h"
#include "shm/faults/point.h"
#include "shm/gpu_ring.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"
#include "shm/types.h"

namespace carillon::gpud {

struct EventCounts {
  uint64_t rung = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t aborted = 0;
  uint64_t refused = 0;  // among the failed: bad entries
};

// How an event ended.
struct EventOutcome {
  shm::EventState state = shm::EventState::kDone;
  uint32_t status = 0;
  bool refused = false;                  // a bad entry: nothing of it ran
  const shm::EventLife* life = nullptr;  // while tracing
};

// Where events write their output in the completion aperture: what slot 0 sees,
// and how far slot i + 1 is from slot i.
struct OutputBuffer {
  std::byte* data = nullptr;
  uint64_t bytes = 0;  // 0: no such output
  uint64_t slot_stride = 0;
};

// Thread safe, but for what is said to come before the doorbell is polled.
class CompletionLedger {
 public:
  // The ring's ECQ must be zeroed. All three outlive this object.
  CompletionLedger(const shm::GpuRing* ring, const DeviceMemory* device,
                   StageHistograms* stages);

  // Before the doorbell is polled: kernels store their completions themselves,
  // so that the device may know of an end before gpud does.
  void ExpectEpilogues() {
    expects_epilogues_ = true;
    MutexLock lock(counts_mutex_);
    counts_ = true;
  }
  bool expects_epilogues() const { return expects_epilogues_; }
  // Records every end that this object brings about or notes, and with `lives`
  // when traced events were seen and dispatched: not where these times are of
  // another clock than the recorder's. Null: none. Before the doorbell is polled;
  // the recorder outlives this object.
  void RecordIn(shm::FlightRecorder* recorder, bool lives = true) {
    recorder_ = recorder;
    records_lives_ = lives && recorder != nullptr;
  }

  // Where faults find the events' output. Before the doorbell is polled.
  void HasOutput(const OutputBuffer& output) { output_ = output; }

  // The event has been taken from the ring: from now on it can be ended. The
  // slot's last event has ended.
  void Launch(shm::Sequence sequence) { SlotFor(sequence).Launch(sequence); }
  // Ends an event: exactly one call per sequence has an effect and returns
  // true. The caller then signals the device's bell.
  bool Finish(shm::Sequence sequence, const EventOutcome& outcome);
  // Takes note of an event that its kernel's epilogue has ended; false if there
  // is no such completion yet.
  bool NoteEnded(shm::Sequence sequence);
  // Ends every event up to `last` that was launched and has not ended as
  // aborted. Returns how many; another thread's Finish() may be under way still.
  uint64_t Abort(uint64_t last, shm::EventStatus why);
  // Records how many events have ended here, once, unless each of them was recorded
  // when it ended, or their number is not known. All have, and nothing is launched
  // any more. When any call returns, it is recorded.
  void RecordCount();
  // How many have ended is not known any more.
  void LoseCount() {
    MutexLock lock(counts_mutex_);
    count_is_lost_ = true;
  }
  // From now on nothing that is aborted is told: it stays in the ring, for
  // another gpud. What was launched and ends by itself is told.
  void KeepUnfinished() {
    keeps_unfinished_.store(true, std::memory_order_relaxed);
  }

  // Whether a launched event has ended; what its epilogue has ended is noted
  // first.
  bool NoteIfEnded(shm::Sequence sequence) {
    if (expects_epilogues_) [[unlikely]]
      NoteEnded(sequence);
    return IsFinished(sequence);
  }
  bool IsFinished(shm::Sequence sequence) const {
    return slots_[ring_->layout().SlotOf(sequence)].IsFinished(sequence);
  }

  // The stamps of an event that has ended, if it was traced and its slot keeps
  // them still. May be called while others end events.
  std::optional<shm::EventLife> LifeOf(shm::Sequence sequence) const;

  // How events ended; `rung` is 0. Who then finds that all launched events have
  // ended finds nobody writing to the ring.
  EventCounts ends() const;
  struct FailureMark {
    uint32_t sequence;  // its low half
    uint32_t status;
  };
  std::optional<FailureMark> last_failure() const;

  // Goes on from where a GPU has stopped, which has counted `totals`, those
  // before event `ended_before` + 1 among the done: of the last events up to
  // `rung`, those without a completion are in flight from now on, and the ends of
  // the others are recorded.
  void TakeBack(const simt::EventTotals& totals, uint64_t ended_before,
                uint64_t rung);

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
    // Whether it has finished, and nobody has begun to end the slot's next event,
    // `next`. If a kernel's epilogue may do so, that one must not be launched.
    bool Keeps(shm::Sequence sequence, shm::Sequence next,
               bool epilogues) const {
      const uint64_t word = word_.load(std::memory_order_acquire);
      return word == Word(sequence, kFinished) ||
             (!epilogues && word == Word(next, kLaunched));
    }

   private:
    static constexpr uint64_t kLaunched = 1;
    static constexpr uint64_t kFinishing = 2;
    static constexpr uint64_t kFinished = 3;
    static uint64_t Word(shm::Sequence sequence, uint64_t state) {
      return sequence.value() << 2 | state;
    }

    // Writers: the front-end (launched), whoever ends the event; readers: they,
    // and the front-end, which counts what has ended in order. Release,
    // acquire: who finds it finished finds its life and its failure written.
    // Launch() is relaxed: what a launch needs goes to its worker under a lock.
    std::atomic<uint64_t> word_{0};
  };

  Slot& SlotFor(shm::Sequence sequence) {
    return slots_[ring_->layout().SlotOf(sequence)];
  }
  void Store(shm::Sequence sequence, const EventOutcome& outcome);
  // A fault's end of an event, held back until a later one's is stored.
  struct HeldEnd {
    shm::Sequence sequence;
    shm::EventState state;
    uint32_t status;
  };
  // False: it is held back, and neither stored nor counted.
  bool CompleteThroughFaults(shm::Sequence sequence,
                             const EventOutcome& outcome);
  void StoreCorrupted(shm::Sequence sequence, const EventOutcome& outcome,
                      const faults::Struck& struck);
  bool Hold(const HeldEnd& end);
  void StoreHeld(bool for_good);
  void AddLife(shm::Sequence sequence, const shm::EventLife& life);
  void NoteFailure(shm::Sequence sequence, shm::EventState state,
                   uint32_t status);
  void Record(shm::Step step, shm::Sequence sequence, shm::EventState state,
              uint32_t status);
  void Count(shm::EventState state);

  const shm::GpuRing* const ring_;
  const DeviceMemory* const device_;
  StageHistograms* const stages_;
  bool expects_epilogues_ = false;
  bool records_lives_ = false;
  // Held while the number is recorded, too: an event kernel and its session may be
  // ended at once, and who comes second goes on as if it had recorded it.
  Mutex counts_mutex_;
  // Ends are not all recorded, and their number is not yet.
  bool counts_ ABSL_GUARDED_BY(counts_mutex_) = false;
  bool count_is_lost_ ABSL_GUARDED_BY(counts_mutex_) = false;
  // Among the aborted: they have no end.
  uint64_t passed_over_ ABSL_GUARDED_BY(counts_mutex_) = 0;
  shm::FlightRecorder* recorder_ = nullptr;
  OutputBuffer output_;
  std::vector<Slot> slots_;

  Mutex held_mutex_;
  std::optional<HeldEnd> held_ ABSL_GUARDED_BY(held_mutex_);
  bool holds_no_more_ ABSL_GUARDED_BY(held_mutex_) = false;
  // Whether there is a held end. Writers: who holds and who stores, under the
  // lock; readers: whoever ends an event. Relaxed: only a hint to take the lock.
  std::atomic<bool> holds_{false};

  // Writers: whoever ends an event; readers: any thread. The first three are
  // added to last, with release: who reads them with acquire and finds nothing
  // in flight finds nobody writing to the ring.
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> aborted_{0};
  std::atomic<uint64_t> refused_{0};  // relaxed: precedes its failed_
  // Writer: the control plane; readers: whoever aborts. Relaxed: aborting begins
  // with LaunchPath::Remove() and Backend::Cancel(), whose locks order it.
  std::atomic<bool> keeps_unfinished_{false};
  // Tracing was on at some time. Writers and readers: whoever ends an event.
  // Relaxed: the slot's state orders one lap's life before the next.
  std::atomic<bool> has_lives_{false};
  // The last failure: the low half of its sequence, then its status, in one
  // word, since several threads store it. Writers: whoever ends an event;
  // readers: any thread. Release, acquire: who then counts the launched events
  // counts that one.
  std::atomic<uint64_t> last_failure_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_COMPLETION_LEDGER_H_
