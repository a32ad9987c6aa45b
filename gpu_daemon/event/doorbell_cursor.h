// Where the front-end is in an event kernel's ring: which rings its device and edgeScheduleEvent
// have asked for, and which of them were launched.
#ifndef CARILLON_GPU_DAEMON_EVENT_DOORBELL_CURSOR_H_
#define CARILLON_GPU_DAEMON_EVENT_DOORBELL_CURSOR_H_

#include <atomic>
#include <cstdint>

#include "gpu_daemon/event/completion_ledger.h"
#include "shm/gpu_ring.h"
#include "shm/types.h"

namespace carillon::gpud {

// The last event that edgeScheduleEvent has named.
class ScheduleMark {
 public:
  // One thread at a time.
  void RaiseTo(uint64_t sequence) {
    if (sequence > last_.load(std::memory_order_relaxed)) {
      last_.store(sequence, std::memory_order_release);
    }
  }
  uint64_t last() const { return last_.load(std::memory_order_acquire); }

 private:
  // Writer: the control plane; reader: the front-end. Release, acquire: the
  // entries that the device wrote before it called are there.
  std::atomic<uint64_t> last_{0};
};

// Who holds a DoorbellCursor& is the front-end's thread, or has stopped it: no
// two threads may call the functions that change it. The const functions are for
// any thread.
class DoorbellCursor {
 public:
  // The doorbell shows now what it showed after event `ended_before`. All three
  // outlive this object.
  DoorbellCursor(const shm::GpuRing* ring, const ScheduleMark* scheduled,
                 CompletionLedger* ledger, uint64_t ended_before);

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
  // A GPU has launched all up to `rung`, and has stopped.
  void ContinueAfter(uint64_t rung);

  // The last event launched.
  uint64_t launched() const {
    return launched_.load(std::memory_order_relaxed);
  }
  // The last event before which all have ended, as last seen by the front-end:
  // it looks when the doorbell rings.
  uint64_t completed_in_order() const {
    return completed_.load(std::memory_order_relaxed);
  }
  // The most events at a time that were rung and had not ended in order, of all
  // times at which the front-end looked since the last call; 0: it found none.
  // One thread at a time, any but the front-end.
  uint32_t TakePeak() { return peak_.exchange(0, std::memory_order_relaxed); }
  // What the doorbell would have shown before the first event.
  uint32_t first_ring() const { return first_ring_; }
  // How far the doorbell is ahead of event `launched`, modulo 2^32.
  uint32_t DoorbellBeyond(uint64_t launched) const {
    return ring_->LoadDoorbell() -
           (first_ring_ + static_cast<uint32_t>(launched));
  }
  // How far the doorbell or edgeScheduleEvent, whichever is later, is ahead of
  // event `launched`; far more than the ring's entries if the doorbell is
  // where no device that keeps to the protocol leaves it.
  uint32_t RingsBeyond(uint64_t launched) const;

 private:
  void AdvanceCompleted();
  // How far the doorbell is behind what it has shown before.
  uint32_t WentBack() const;

  const shm::GpuRing* const ring_;
  const ScheduleMark* const scheduled_;
  CompletionLedger* const ledger_;
  const uint32_t first_ring_;
  // Writer: the front-end; readers: any thread, for the figures. Relaxed: what
  // a launch needs goes to its worker under the KMU's lock.
  std::atomic<uint64_t> launched_;
  std::atomic<uint64_t> completed_;
  // Writers: the front-end, which stores what is more than it has loaded; who
  // takes the peak, by exchange. No peak is lost: a value that the front-end does
  // not store is no more than one that was there when it loaded, which an
  // exchange takes after it or has just taken; one that it stores is taken by the
  // next exchange, even if another came between its load and its store. Relaxed:
  // a figure for display.
  std::atomic<uint32_t> peak_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_DOORBELL_CURSOR_H_
