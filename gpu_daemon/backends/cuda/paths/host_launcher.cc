#include "gpu_daemon/backends/cuda/paths/host_launcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "spdlog/spdlog.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

// Flights that one Reap() looks at.
constexpr size_t kMaxLooks = 64;
constexpr std::chrono::milliseconds kLookEvery{100};

void FinishAndSignal(EventKernel& event, shm::Sequence sequence,
                     EventState state, EventStatus status) {
  if (event.ledger().Finish(
          sequence,
          {.state = state, .status = static_cast<uint32_t>(status)})) {
    event.memory().bell().Signal();
  }
}

}  // namespace

void HostLauncher::Resources::Abandon() {
  sequence = {};
  scratch.Abandon();
  completions.Abandon();
  ptb_words.Abandon();
}

HostLauncher::~HostLauncher() {
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) Abandon();
  flights_.clear();
  waiting_.clear();
  tenancies_.clear();
  retired_.clear();
  streams_ = {};
}

absl::Status HostLauncher::FillIn(EventKernel& event, Resources& resources) {
  ASSIGN_OR_RETURN(resources.sequence,
                   LaunchSequence::Make(*gpu_, event.kmd()));
  ASSIGN_OR_RETURN(resources.scratch,
                   DeviceBytes::Make(gpu_->driver(),
                                     uint64_t{event.ring().layout().entries} *
                                         sizeof(simt::EventScratch)));
  ASSIGN_OR_RETURN(resources.completions,
                   PinnedBytes::Make(gpu_->driver(),
                                     uint64_t{event.ring().layout().entries} *
                                         sizeof(shm::EcqEntry)));
  ASSIGN_OR_RETURN(
      resources.ptb_words,
      PtbWords::Make(gpu_->driver(), event.ring().layout().entries));
  return absl::OkStatus();
}

shm::EcqEntry& HostLauncher::CompletionOf(const Flight& flight,
                                          const Resources& resources) {
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  return resources.completions.as<shm::EcqEntry>()[slot];
}

simt::EventFrame HostLauncher::FrameOf(const Flight& flight,
                                       const Resources& resources) const {
  const EventKernel& event = *flight.event;
  const uint32_t slot = event.ring().layout().SlotOf(flight.sequence);
  simt::EventFrame frame{};
  frame.ecq = event.ring().completion_slot(flight.sequence);
  frame.scratch = resources.scratch.as<simt::EventScratch>() + slot;
  frame.sequence = flight.sequence.value();
  if (flight.life.seen_ns != 0) {
    frame.life = &event.ring().life(flight.sequence);
    frame.clock_offset_ns = gpu_->clock_offset_ns();
  }
  return frame;
}

absl::Status HostLauncher::Prepare(EventKernel& event) {
  const Gpu::PauseResidents quiet(gpu_);
  while (true) {
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    const absl::Status status = TryPrepare(event);
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

absl::Status HostLauncher::TryPrepare(EventKernel& event) {
  ASSIGN_OR_RETURN(auto resources, MakeResources(event));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(OpenStreams(event.priority()));
  tenancies_[&event].resources = std::move(resources);
  return absl::OkStatus();
}

absl::Status HostLauncher::OpenStreams(uint32_t priority) {
  RETURN_IF_ERROR(OpenRow(priority, SmSet::kRest, priority));
  return gpu_->divided() ? OpenRow(kPartRow, SmSet::kEvents, 0)
                         : absl::OkStatus();
}

absl::Status HostLauncher::OpenRow(uint32_t row, SmSet sms, uint32_t priority) {
  if (streams_[row].front()) return absl::OkStatus();
  // All or none: each takes one of gpud's few places.
  std::array<Stream, kStreams> made;
  for (Stream& stream : made) {
    ASSIGN_OR_RETURN(stream, gpu_->MakeStream(sms, priority));
  }
  streams_[row] = std::move(made);
  return absl::OkStatus();
}

absl::Status HostLauncher::PrepareForParts() {
  MutexLock lock(mutex_);
  for (auto& [event, tenancy] : tenancies_) {
    RETURN_IF_ERROR(OpenStreams(event->priority()));
    RETURN_IF_ERROR(AddForParts(*event, *tenancy.resources));
  }
  return absl::OkStatus();
}

void HostLauncher::DropParts() {
  MutexLock lock(mutex_);
  streams_[kPartRow] = {};
  for (auto& [event, tenancy] : tenancies_) RemoveForParts(*tenancy.resources);
}

void HostLauncher::Release(EventKernel& event) {
  MutexLock lock(mutex_);
  const auto tenancy = tenancies_.find(&event);
  if (tenancy == tenancies_.end()) return;
  tenancy->second.released = true;
  if (tenancy->second.in_flight == 0) Retire(tenancy);
}

// To be freed later: not in the front-end's thread, since the driver may wait.
void HostLauncher::Retire(Tenancies::iterator tenancy) {
  retired_.push_back(std::move(tenancy->second.resources));
  tenancies_.erase(tenancy);
}

void HostLauncher::FreeRetired() {
  {
    MutexLock lock(mutex_);
    if (retired_.empty()) return;
  }
  const Gpu::PauseResidents quiet(gpu_);
  const Gpu::ContextLease use = gpu_->Enter();
  MutexLock lock(mutex_);
  if (!use) {
    for (auto& resources : retired_) resources->Abandon();
  }
  retired_.clear();
  for (uint32_t priority = 0; priority < kPriorities; ++priority) {
    const bool in_use = std::ranges::any_of(tenancies_, [&](const auto& of) {
      return of.first->priority() == priority;
    });
    if (!in_use) streams_[priority] = {};
  }
  if (tenancies_.empty()) streams_[kPartRow] = {};
}

bool HostLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                          shm::Sequence sequence, CheckedEntry& entry) {
  MutexLock lock(mutex_);
  Flight flight{
      .event = event,
      .place = gate_->Enter(&event->memory(), event->allowed_priority()),
      .since_ns = NowNs(),
      .sequence = sequence,
      .kmd = entry.kmd,
      .args = {entry.args.data(),
               entry.args.data() + entry.kmd.kernel->args_size},
      .life = entry.life,
      .stream = next_stream_++ % kStreams};
  const Gpu::ContextLease use = gpu_->TryEnter();
  absl::Status status = use ? absl::OkStatus() : gpu_->health();
  if (status.ok()) flight.grant = gate_->TryBegin(*flight.place);
  const bool waits = status.ok() && flight.grant == LaunchGate::Grant::kNone;
  if (use && !waits) status = Start(flight);
  if (!status.ok()) {
    LogRefusal(flight, status);
    return event->ledger().Finish(
        sequence, {.state = EventState::kFailed,
                   .status = static_cast<uint32_t>(EventStatus::kNotLaunched)});
  }
  ++tenancies_[event.get()].in_flight;
  (waits ? waiting_ : flights_).push_back(std::move(flight));
  return false;
}

bool HostLauncher::StartWaiting() {
  if (waiting_.empty()) return false;
  bool ended = false;
  LaunchGate::Choice choice = gate_->Choose();
  for (size_t i = 0; i < waiting_.size();) {
    Flight& next = waiting_[i];
    next.grant = choice.Allows(*next.place) ? gate_->TryBegin(*next.place)
                                            : LaunchGate::Grant::kNone;
    if (next.grant == LaunchGate::Grant::kNone) {
      ++i;
      continue;
    }
    Flight flight = std::move(next);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    if (const absl::Status started = Start(flight); started.ok()) {
      flights_.push_back(std::move(flight));
    } else {
      LogRefusal(flight, started);
      FinishAndSignal(*flight.event, flight.sequence, EventState::kFailed,
                      EventStatus::kNotLaunched);
      Land(flight);
      ended = true;
    }
    choice = gate_->Choose();
  }
  return ended;
}

// A fault is no error: then the flight waits to be taken up again.
absl::Status HostLauncher::Start(Flight& flight) {
  flight.launched_ns = NowNs();
  flight.has_waited = false;
  flight.first_since_ns = 0;
  if (flight.life.seen_ns != 0 && !flight.slices) {
    flight.life.dispatched_ns = NowNs();
    flight.event->ring().life(flight.sequence) = flight.life;
  }
  Resources& resources = *tenancies_[flight.event.get()].resources;
  if (flight.grant == LaunchGate::Grant::kSlice && !flight.slices &&
      gate_->slices().First(flight.kmd, WaveOf(resources, flight),
                            resources.sequence.WhyWhole(flight.kmd)) != 0) {
    flight.slices.emplace();
  }
  flight.row = gate_->reserves() ? kPartRow : flight.event->priority();
  flight.ptb_blocks = PtbBlocks(resources, flight);
  if (flight.ptb_blocks != 0 && !flight.slices) flight.slices.emplace();
  const CUresult result = flight.slices ? EnqueueSlice(resources, flight)
                                        : Enqueue(resources, flight);
  flight.launched = gpu_->Check(result);
  if (flight.launched || IsContextFault(result)) return absl::OkStatus();
  return ToStatus(gpu_->driver(), result, "launch");
}

void HostLauncher::LogRefusal(const Flight& flight, const absl::Status& why) {
  Tenancy& tenancy = tenancies_[flight.event.get()];
  if (tenancy.refused) return;
  tenancy.refused = true;
  spdlog::warn(
      "event {} of kernel {} of device '{}' was not launched, and ends as "
      "failed with status {}: {}; the log says this once an event kernel",
      flight.sequence.value(), flight.kmd.kernel->name,
      flight.event->memory().name(),
      static_cast<uint32_t>(EventStatus::kNotLaunched), why.message());
}

uint32_t HostLauncher::PtbBlocks(const Resources& resources,
                                 const Flight& flight) const {
  if (flight.grant != LaunchGate::Grant::kPtb) return 0;
  const bool has_ptb = resources.sequence.has_ptb();
  if (!flight.slices) {
    return gate_->ptb().First(flight.kmd, flight.event->allowed_priority(),
                              has_ptb);
  }
  return has_ptb ? gate_->ptb().Resident(flight.kmd) : 0;
}

uint64_t HostLauncher::WaveOf(const Resources& resources,
                              const Flight& flight) const {
  return gate_->slices().WaveOf(resources.sequence.CostOfSlice(flight.kmd));
}

CUresult HostLauncher::EnqueueSlice(const Resources& resources,
                                    Flight& flight) {
  SlicedRun& slices = *flight.slices;
  simt::EventFrame frame = FrameOf(flight, resources);
  frame.ecq = &CompletionOf(flight, resources);
  frame.life = nullptr;
  if (flight.ptb_blocks != 0) {
    const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
    slices.BeginPtb();
    frame.sequence = slices.sequence();
    gate_->LetBeStopped(*flight.place, resources.ptb_words.stop(slot));
    return resources.sequence.LaunchPtb(
        gpu_->driver(), flight.kmd, frame, flight.args.data(), StreamOf(flight),
        resources.ptb_words.SupplyOf(slot, flight.kmd.grid,
                                     slices.ended_blocks()),
        flight.ptb_blocks);
  }
  const bool all = flight.grant != LaunchGate::Grant::kSlice;
  const GridSlice& slice = slices.Begin(
      flight.kmd.grid,
      all ? flight.kmd.blocks()
          : gate_->slices().Next(flight.kmd, WaveOf(resources, flight)));
  frame.sequence = slices.sequence();
  return resources.sequence.LaunchSlice(gpu_->driver(), flight.kmd, frame,
                                        flight.args.data(), StreamOf(flight),
                                        slice);
}

bool HostLauncher::GoesOn(Flight& flight) {
  if (!flight.slices || !flight.launched) return false;
  SlicedRun& slices = *flight.slices;
  const Resources& resources = *tenancies_[flight.event.get()].resources;
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const auto took_ns = slices.End(CompletionOf(flight, resources),
                                  resources.ptb_words.ended(slot));
  if (flight.grant == LaunchGate::Grant::kSlice) {
    gate_->slices().Ran(flight.kmd, WaveOf(resources, flight),
                        slices.slice()->blocks(), took_ns);
  }
  const bool all = slices.ended_blocks() == flight.kmd.blocks();
  if (!all && flight.ptb_blocks != 0) gate_->ptb().Stopped();
  if (!all && !flight.cancelled) {
    flight.launched = false;
    flight.launched_ns = 0;
    flight.since_ns = NowNs();
    gate_->EndSlice(*flight.place);
    return true;
  }
  const bool traced = flight.life.seen_ns != 0;
  if (traced) flight.life.finished_ns = NowNs();
  if (flight.event->ledger().Finish(
          flight.sequence,
          {.state = all ? slices.state() : EventState::kAborted,
           .status =
               all ? slices.status() : static_cast<uint32_t>(*flight.cancelled),
           .life = traced ? &flight.life : nullptr})) {
    flight.event->memory().bell().Signal();
  }
  return false;
}

bool HostLauncher::must_poll() const {
  MutexLock lock(mutex_);
  return !flights_.empty() || !waiting_.empty();
}

bool HostLauncher::Reap() {
  MutexLock lock(mutex_);
  if (flights_.empty() && waiting_.empty()) return false;
  const Gpu::ContextLease use = gpu_->TryEnter();
  if (!use) return false;
  const bool reaped = ReapFlights();
  const bool ended = StartWaiting();
  if (reaped || ended) landed_.NotifyAll();
  return reaped || ended;
}

bool HostLauncher::ReapFlights() {
  FirstOfStream first;
  size_t kept = 0;
  const size_t looks = std::min(flights_.size(), kMaxLooks);
  for (size_t i = 0; i < looks; ++i) {
    Flight& flight = flights_[i];
    const bool is_first = first(flight);
    if (Ended(flight, is_first)) {
      if (GoesOn(flight)) {
        waiting_.push_back(std::move(flight));
      } else {
        Land(flight);
      }
      continue;
    }
    NotePlace(flight, is_first);
    first.Stays(flight);
    if (kept != i) flights_[kept] = std::move(flight);
    ++kept;
  }
  if (kept == looks) return false;
  flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(kept),
                 flights_.begin() + static_cast<ptrdiff_t>(looks));
  return true;
}

bool HostLauncher::Ended(Flight& flight, bool stream_free) {
  if (!flight.launched) {
    // It came while there was no context, after the others were taken up again.
    const absl::Status started = Start(flight);
    if (started.ok()) return false;
    LogRefusal(flight, started);
    FinishAndSignal(*flight.event, flight.sequence, EventState::kFailed,
                    EventStatus::kNotLaunched);
    return true;
  }
  Resources& resources = *tenancies_[flight.event.get()].resources;
  if (flight.slices) {
    return flight.slices->HasEnded(CompletionOf(flight, resources));
  }
  return Look(resources, flight, stream_free) == Outcome::kEnded;
}

void HostLauncher::Land(const Flight& flight) {
  const auto tenancy = tenancies_.find(flight.event.get());
  if (--tenancy->second.in_flight == 0 && tenancy->second.released) {
    Retire(tenancy);
  }
}

void HostLauncher::Cancel(const LaunchFilter& which, EventStatus why) {
  {
    MutexLock lock(mutex_);
    std::erase_if(waiting_, [&](const Flight& flight) {
      mutex_.AssertHeld();
      if (!which.Matches(*flight.event)) return false;
      FinishAndSignal(*flight.event, flight.sequence, EventState::kAborted,
                      why);
      Land(flight);
      return true;
    });
    for (Flight& flight : flights_) {
      if (!which.Matches(*flight.event)) continue;
      flight.cancelled = why;
      gate_->Stop(*flight.place);
    }
    while (std::ranges::any_of(
               flights_,
               [&](const Flight& f) { return which.Matches(*f.event); }) &&
           gpu_->health().ok()) {
      landed_.WaitFor(mutex_, kLookEvery);
    }
  }
  FreeRetired();
}

void HostLauncher::Abandon() {
  MutexLock lock(mutex_);
  for (auto& [event, tenancy] : tenancies_) {
    if (tenancy.resources != nullptr) tenancy.resources->Abandon();
  }
  for (auto& resources : retired_) resources->Abandon();
  for (auto& streams : streams_) {
    for (Stream& stream : streams) stream.Abandon();
  }
  for (const Flight& flight : flights_) gate_->ForgetStop(*flight.place);
}

std::vector<LaunchProgress> HostLauncher::launches() const {
  MutexLock lock(mutex_);
  std::vector<LaunchProgress> all;
  const Nanoseconds now = NowNs();
  const auto add = [&](const Flight& flight, bool waits) {
    all.push_back(
        {.device = flight.event->memory().name(),
         .kernel = std::string(flight.kmd.kernel->name),
         .event = true,
         .sequence = flight.sequence.value(),
         .priority = flight.event->allowed_priority(),
         .blocks = flight.kmd.blocks(),
         .wait_ns = waits ? now - std::min(now, flight.since_ns) : 0});
    if (flight.slices) {
      all.back().ended = flight.slices->ended_blocks();
      all.back().slices = flight.slices->slices();
      if (waits) return;
      all.back().running =
          flight.slices->slice()
              ? flight.slices->slice()->blocks()
              : std::min<uint64_t>(flight.ptb_blocks,
                                   all.back().blocks - all.back().ended);
    }
  };
  for (const Flight& flight : flights_) {
    if (flight.slices) add(flight, false);
  }
  for (const Flight& flight : waiting_) add(flight, true);
  return all;
}

// It may have faulted all the same.
std::optional<Unfinished::End> HostLauncher::CancelledEnd(
    const Flight& flight) {
  if (!flight.cancelled || flight.overdue) return std::nullopt;
  return Unfinished::End{.state = EventState::kAborted,
                         .status = static_cast<uint32_t>(*flight.cancelled)};
}

void HostLauncher::TakeUnfinished(LostWork& lost) {
  MutexLock lock(mutex_);
  for (Flight& flight : waiting_) flights_.push_back(std::move(flight));
  waiting_.clear();
  for (Flight& flight : flights_) {
    Land(flight);
    lost.keep.push_back(flight.event);
    if (flight.event->ledger().NoteEnded(flight.sequence)) {
      // Nobody has looked since: its device may sleep.
      flight.event->memory().bell().Signal();
      continue;
    }
    // It runs again, from its first block, and then has its own time.
    const bool waits =
        flight.overdue && flight.slices && flight.kmd.kernel->is_users();
    if (waits) gate_->slices().NoteWaits(*flight.kmd.kernel);
    lost.unfinished.push_back(
        {.kmd = flight.kmd,
         .args = std::move(flight.args),
         .end =
             [event = flight.event, sequence = flight.sequence](
                 EventState state, uint32_t status) {
               FinishAndSignal(*event, sequence, state,
                               static_cast<EventStatus>(status));
             },
         .run = {.device = flight.event->memory().name(),
                 .owner = flight.event->memory().owner(),
                 .event_id = flight.event->event_id(),
                 .sequence = flight.sequence.value()},
         // A launch that failed may have been the one whose kernel faulted.
         .waits = flight.launched_ns == 0,
         .overdue = flight.overdue,
         .timed_out = flight.overdue && !waits,
         .ends_as = CancelledEnd(flight),
         .slice_blocks =
             flight.slices && !waits ? flight.slices->most_at_once() : 0});
  }
  flights_.clear();
  landed_.NotifyAll();
}

absl::Status HostLauncher::Settle() {
  MutexLock lock(mutex_);
  for (auto& [event, tenancy] : tenancies_) {
    ASSIGN_OR_RETURN(tenancy.resources, MakeResources(*event));
    RETURN_IF_ERROR(OpenStreams(event->priority()));
  }
  return absl::OkStatus();
}

// What waits behind another in its stream does not run yet.
void HostLauncher::NotePlace(Flight& flight, bool is_first) {
  if (!is_first) {
    flight.has_waited = true;
  } else if (flight.launched && flight.first_since_ns == 0) {
    flight.first_since_ns = flight.has_waited ? NowNs() : flight.launched_ns;
  }
}

HostLauncher::Flight* HostLauncher::OldestFirst() {
  Flight* oldest = nullptr;
  FirstOfStream first;
  for (Flight& flight : flights_) {
    if (!flight.launched) continue;
    const bool is_first = first(flight);
    NotePlace(flight, is_first);
    first.Stays(flight);
    if (!is_first) continue;
    if (oldest == nullptr || flight.first_since_ns < oldest->first_since_ns) {
      oldest = &flight;
    }
  }
  return oldest;
}

std::optional<Nanoseconds> HostLauncher::OldestTaken(Nanoseconds since) {
  MutexLock lock(mutex_);
  const Flight* const oldest = OldestFirst();
  if (oldest == nullptr || oldest->first_since_ns >= since) return std::nullopt;
  return oldest->first_since_ns;
}

bool HostLauncher::MarkOverdue(Nanoseconds since) {
  MutexLock lock(mutex_);
  Flight* const oldest = OldestFirst();
  if (oldest == nullptr || oldest->first_since_ns >= since) return false;
  const Gpu::ContextLease use = gpu_->TryEnter();
  if (!use) return false;
  // If it has, the front-end will find it so, too.
  if (Ended(*oldest, true)) return false;
  return oldest->overdue = true;
}

void HostLauncher::EndOverdue(bool marked) {
  MutexLock lock(mutex_);
  FirstOfStream first;
  for (Flight& flight : flights_) {
    const bool runs = flight.launched && first(flight);
    first.Stays(flight);
    if (!(marked ? flight.overdue : runs)) continue;
    FinishAndSignal(*flight.event, flight.sequence, EventState::kFailed,
                    EventStatus::kTimedOut);
  }
}

}  // namespace carillon::gpud::cuda
