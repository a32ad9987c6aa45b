// One entry of the event kernel table (EDGE III-C): what was registered, the ring
// that triggers it, and what became of its events.
#ifndef CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_
#define CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/completion_ledger.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/doorbell_cursor.h"
#include "gpu_daemon/event/gpu_ledger.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "gpu_daemon/event/short_path_estimate.h"
#include "gpu_daemon/event/stage_histograms.h"
#include "kernels/simt/event_frame.h"
#include "shm/gpu_ring.h"

namespace carillon::gpud {

class EventKernel;
struct CheckedEntry;

class EventKernel;

// What ties an event kernel to one of another device (dispatch/chain.h). Thread
// safe.
class ChainLink {
 public:
  virtual ~ChainLink() = default;
  // An event of `source` is done. True: it ends when the event that was started
  // with it has. False: there was none that waited, or `source` has left.
  virtual bool HandOn(const EventKernel& source, shm::Sequence sequence,
                      const EventOutcome& outcome) = 0;
  // The follower's event waits for one of the source's.
  virtual void Await(const std::shared_ptr<EventKernel>& event,
                     shm::Sequence sequence, const CheckedEntry& entry) = 0;
};

// Made by RegisteredEvent::Create() (control/sessions), polled by the front-end, finished by whoever runs
// it. Its parts say which thread may call what; its own functions are for any
// thread, unless they say otherwise.
class EventKernel {
 public:
  struct Registration {
    KernelMetadata kmd;
    uint32_t priority = 0;
    bool modifyable = false;
    std::string label;
    std::string_view launch_path;  // a LaunchPathInfo's, or a literal
    ArgumentPlan arguments;
    // For faults; none: they write to no fixed place in that aperture.
    OutputBuffer output;
    // Events up to this sequence were an earlier gpud's, and have ended.
    uint64_t ended_before = 0;
    // Null: it hands no event on, and takes none.
    std::shared_ptr<ChainLink> hands_to = nullptr;
    std::shared_ptr<ChainLink> takes_from = nullptr;
    // With hands_to: of its parameters, one per KernelInfo::params.
    std::vector<ParameterBinding> bindings = {};
    // The devices at the other ends, for display.
    std::string next_device = {};
    std::string last_device = {};
  };

  // The layout was placed by the control plane in memory's apertures; its ECQ
  // must be zeroed.
  EventKernel(Registration registration, std::shared_ptr<DeviceMemory> memory,
              const shm::RingLayout& layout, uint32_t ekt_index);

  const KernelMetadata& kmd() const { return registration_.kmd; }
  uint32_t priority() const { return registration_.priority; }
  // No higher than the operator lets its device have now.
  uint32_t allowed_priority() const {
    return std::min(priority(), memory_->share().max_priority());
  }
  bool modifyable() const { return registration_.modifyable; }
  const std::string& label() const { return registration_.label; }
  std::string_view launch_path() const { return registration_.launch_path; }
  const ArgumentPlan& arguments() const { return registration_.arguments; }
  uint64_t ended_before() const { return registration_.ended_before; }
  const std::vector<ParameterBinding>& bindings() const {
    return registration_.bindings;
  }
  ChainLink* takes_from() const { return registration_.takes_from.get(); }
  ChainLink* hands_to() const { return registration_.hands_to.get(); }
  const std::string& next_device() const { return registration_.next_device; }
  const std::string& last_device() const { return registration_.last_device; }
  const DeviceMemory& memory() const { return *memory_; }
  const std::shared_ptr<DeviceMemory>& shared_memory() const { return memory_; }
  const shm::GpuRing& ring() const { return ring_; }
  uint32_t ekt_index() const { return ekt_index_; }
  uint32_t event_id() const { return ring_.layout().doorbell.value(); }
  // Whether launches that need it get KernelInfo::validate(): not if nothing
  // can change after registration.
  bool validate_each_launch() const { return validate_each_launch_; }

  // The front-end's thread only: DoorbellCursor says why.
  DoorbellCursor& cursor() { return cursor_; }
  const DoorbellCursor& cursor() const { return cursor_; }
  CompletionLedger& ledger() { return ledger_; }
  const CompletionLedger& ledger() const { return ledger_; }
  GpuLedger& gpu_ledger() { return gpu_ledger_; }
  const GpuLedger& gpu_ledger() const { return gpu_ledger_; }
  StageHistograms& stages() { return stages_; }
  const StageHistograms& stages() const { return stages_; }
  ShortPathEstimate& short_path() { return short_path_; }
  const ShortPathEstimate& short_path() const { return short_path_; }

  // Whether no event ends without CompletionLedger::Finish().
  bool finishes_all() const {
    return !ledger_.expects_epilogues() && !gpu_ledger_.following();
  }

  // Ends an event that has been launched, unless it is handed on and ends later.
  // True if it has ended by now: the caller then signals the device's bell.
  bool End(shm::Sequence sequence, const EventOutcome& outcome) {
    if (registration_.hands_to == nullptr ||
        outcome.state != shm::EventState::kDone) [[likely]] {
      return ledger_.Finish(sequence, outcome);
    }
    return HandOn(sequence, outcome);
  }

  // edgeScheduleEvent: rings up to sequence `through`, once, however often it
  // is said and whether or not the doorbell says so too. One thread at a time.
  // False: beyond what the ring can hold.
  bool ScheduleThrough(uint64_t through);
  // The last event that ScheduleThrough() has named; 0: none.
  uint64_t scheduled() const { return scheduled_.last(); }
  // The GPU that gpu_ledger() follows has stopped, and all that it took has
  // ended: `totals` are exact. Rings that it had not taken count as in flight
  // from now on, so that the caller can abort or relaunch them.
  void TakeBack(const simt::EventTotals& totals);
  // Ends every launched event that has not ended as aborted. Returns how many.
  // Afterwards nothing is in flight: waits for a Finish() that is under way in
  // another thread. Launching must have ended.
  uint64_t AbortUnfinished(shm::EventStatus why);

  EventCounts counts() const;
  // The last event launched.
  uint64_t launched() const {
    return gpu_ledger_.launched().value_or(cursor_.launched());
  }
  // Events ended in order, for display: while events end, it may be late.
  uint64_t ended_in_order() const;
  uint64_t in_flight() const;
  // The most events at a time that were rung and had not ended in order since
  // the last call, by the front-end's looks (DoorbellCursor) and by this one. One
  // thread at a time.
  uint32_t TakePeak();
  // The stamps of the event that ended last in order, while tracing and unless
  // its slot is in use again.
  struct Traced {
    uint64_t sequence = 0;
    shm::EventLife life = {};
  };
  std::optional<Traced> LastTraced() const;
  // Rings that were not launched when this looked.
  uint32_t waiting_rings() const {
    // The launched ones first, so that it is never negative.
    const uint32_t waiting = cursor_.RingsBeyond(launched());
    return waiting <= ring_.layout().entries ? waiting : 0;
  }
  // The events that it would be wrong to stop now: all that are rung and have
  // not ended; of a follower only those that its chain has started, as the others
  // are room for events that may never come. It may count one twice.
  uint64_t busy() const {
    if (takes_from() != nullptr)
      return started_.load(std::memory_order_acquire);
    // In this order, a ring that is launched in between counts twice. In the
    // other one it would not count at all.
    const uint64_t waiting = waiting_rings();
    return waiting + in_flight();
  }
  // Whoever starts a follower's events, before, and after their end.
  void NoteStarted() { started_.fetch_add(1, std::memory_order_relaxed); }
  void NoteStopped() { started_.fetch_sub(1, std::memory_order_release); }
  // The last failure, for telemetry; all 0 before the first.
  struct Failure {
    uint64_t sequence = 0;
    uint32_t status = 0;
  };
  Failure last_failure() const;

 private:
  // As End(), for the chain's next event.
  bool HandOn(shm::Sequence sequence, const EventOutcome& outcome);

  const Registration registration_;
  const std::shared_ptr<DeviceMemory> memory_;
  const shm::GpuRing ring_;
  const uint32_t ekt_index_;
  const bool validate_each_launch_;

  ShortPathEstimate short_path_;
  ScheduleMark scheduled_;
  StageHistograms stages_;
  CompletionLedger ledger_{&ring_, memory_.get(), &stages_};
  DoorbellCursor cursor_{&ring_, &scheduled_, &ledger_, ended_before()};
  GpuLedger gpu_ledger_{&ring_, &cursor_, ended_before()};
  // Of a follower. Writers: workers; readers: RPC threads.
  std::atomic<uint64_t> started_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_EVENT_KERNEL_H_
