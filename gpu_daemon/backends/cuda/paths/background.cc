#include "gpu_daemon/backends/cuda/paths/background.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

// How late the end of a background kernel may be seen.
constexpr std::chrono::microseconds kLookEvery{50};

// A fence of the system's scope waits for all stores of its memory
// synchronisation domain. Event kernels of all paths share the default one: what
// they hand to each other is ordered within a domain only. So background kernels
// go elsewhere, and no completion waits for their stores. A driver that does not
// take it has one domain for all.
void LeaveDomain(const Driver& driver, CUstream stream) {
  CUstreamAttrValue value = {};
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  driver.cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN,
                              &value);
}

void TellEnd(KernelLaunch& launch, EventState state, uint32_t status) {
  launch.life.finished_ns = NowNs();
  launch.on_end(launch.ResultOf(state, status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Background>> Background::Create(
    Gpu* gpu, LaunchGate* gate) {
  std::unique_ptr<Background> background(new Background(gpu, gate));
  {
    const Gpu::ContextLease use = gpu->Enter();
    if (!use) return gpu->health();
    RETURN_IF_ERROR(background->Settle());
  }
  gpu->Add(background.get());
  background->thread_ = std::thread([self = background.get()] { self->Run(); });
  return background;
}

// All of it at once: later the driver may have to wait for an idle GPU.
absl::Status Background::Settle() {
  MutexLock lock(mutex_);
  no_more_streams_ = false;
  ASSIGN_OR_RETURN(
      scratch_,
      DeviceBytes::Make(gpu_->driver(), kStreams * sizeof(simt::EventScratch)));
  ASSIGN_OR_RETURN(
      completions_,
      PinnedBytes::Make(gpu_->driver(), 2 * kStreams * sizeof(shm::EcqEntry)));
  ASSIGN_OR_RETURN(ptb_words_, PtbWords::Make(gpu_->driver(), kStreams));
  return absl::OkStatus();
}

Background::~Background() {
  Stop();
  gpu_->Remove(this);
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) Abandon();
  for (StreamSlot& slot : slots_) {
    slot.stream.Reset();
    slot.part_stream.Reset();
  }
  scratch_ = DeviceBytes();
  completions_ = PinnedBytes();
  ptb_words_ = PtbWords();
}

void Background::Submit(std::unique_ptr<KernelLaunch> launch) {
  kernels_.fetch_add(1, std::memory_order_relaxed);
  blocks_.fetch_add(launch->kmd.blocks(), std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      auto place = gate_->Enter(launch->memory.get(), launch->priority);
      waiting_[launch->priority].push_back(
          {std::move(launch), std::move(place)});
    }
  }
  if (launch != nullptr) {
    return TellEnd(*launch, EventState::kAborted,
                   static_cast<uint32_t>(EventStatus::kShutdown));
  }
  work_.NotifyOne();
}

void Background::Cancel(const LaunchFilter& which, EventStatus why) {
  std::vector<Ended> ended;
  {
    MutexLock lock(mutex_);
    for (auto& queue : waiting_) {
      for (Waiting& waits : queue) {
        if (!which.Matches(*waits.launch)) continue;
        ended.push_back({std::move(waits.launch), EventState::kAborted,
                         static_cast<uint32_t>(why)});
      }
      std::erase_if(
          queue, [](const Waiting& waits) { return waits.launch == nullptr; });
    }
    for (StreamSlot& slot : slots_) {
      if (slot.launch == nullptr || !which.Matches(*slot.launch)) continue;
      slot.launch->cancelled = why;
      gate_->Stop(*slot.place);
      if (slot.between_slices) {
        EndLaunch(slot, EventState::kAborted, static_cast<uint32_t>(why),
                  ended);
      }
    }
  }
  Tell(ended);
}

std::array<uint32_t, kPriorities> Background::waiting() const {
  MutexLock lock(mutex_);
  std::array<uint32_t, kPriorities> counts{};
  for (uint32_t i = 0; i < kPriorities; ++i) {
    counts[i] = static_cast<uint32_t>(waiting_[i].size());
  }
  return counts;
}

std::vector<LaunchProgress> Background::launches() const {
  std::vector<LaunchProgress> all;
  MutexLock lock(mutex_);
  const Nanoseconds now = NowNs();
  for (const StreamSlot& slot : slots_) {
    if (slot.launch == nullptr) continue;
    all.push_back(ProgressOf(*slot.launch));
    LaunchProgress& shown = all.back();
    shown.running = shown.blocks;
    if (!slot.slices) continue;
    shown.ended = slot.slices->ended_blocks();
    shown.slices = slot.slices->slices();
    if (slot.between_slices) {
      shown.running = 0;
    } else if (slot.slices->slice()) {
      shown.running = slot.slices->slice()->blocks();
    } else {
      shown.running =
          std::min<uint64_t>(slot.ptb_blocks, shown.blocks - shown.ended);
    }
    if (slot.between_slices) {
      shown.wait_ns = now - std::min(now, slot.waits_since_ns);
    }
  }
  for (uint32_t priority = kPriorities; priority-- > 0;) {
    for (const Waiting& waits : waiting_[priority]) {
      all.push_back(ProgressOf(*waits.launch));
      all.back().wait_ns = now - std::min(now, waits.launch->life.queued_ns);
      if (!waits.slices) continue;
      all.back().ended = waits.slices->ended_blocks();
      all.back().slices = waits.slices->slices();
    }
  }
  return all;
}

bool Background::idle() const {
  MutexLock lock(mutex_);
  return running_ == 0 && replaying_ == 0 &&
         std::ranges::all_of(waiting_, [](const auto& q) { return q.empty(); });
}

void Background::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  Cancel(LaunchFilter::All(), EventStatus::kShutdown);
  work_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Background::Run() {
  pthread_setname_np(pthread_self(), "gpud-background");
  MutexLock lock(mutex_);
  while (true) {
    const bool waits = std::ranges::any_of(
        waiting_, [](const auto& queue) { return !queue.empty(); });
    if (stopping_ && running_ == 0 && !waits) return;
    if (running_ == 0 && !waits) {
      work_.Wait(mutex_);
      continue;
    }
    std::vector<Ended> ended;
    bool wants_streams = false;
    if (const Gpu::ContextLease use = gpu_->TryEnter()) {
      Look(ended);
      wants_streams = Fill(ended);
    } else if (!gpu_->health().ok()) {
      for (auto& queue : waiting_) {
        for (Waiting& waits : queue) {
          ended.push_back({std::move(waits.launch), EventState::kFailed,
                           static_cast<uint32_t>(EventStatus::kNotLaunched)});
        }
        queue.clear();
      }
    }
    if (ended.empty() && !wants_streams) {
      if (ASliceRuns()) {
        // Whoever is next waits for its end, which is soon.
        lock.Unlock();
        sched_yield();
        lock.Lock();
      } else {
        work_.WaitFor(mutex_, kLookEvery);
      }
      continue;
    }
    lock.Unlock();
    Tell(ended);
    // Not under the lock: what goes with a launch may wait for residents to pause,
    // and who has paused them for this lock.
    ended.clear();
    if (wants_streams) MakeStreams();
    lock.Lock();
  }
}

void Background::Tell(std::vector<Ended>& ended) {
  for (Ended& end : ended) TellEnd(*end.launch, end.state, end.status);
}

// Of those that the gate lets begin, the highest priority first, the oldest
// among equals.
bool Background::Fill(std::vector<Ended>& ended) {
  LaunchGate::Choice choice = gate_->Choose();
  for (StreamSlot& slot : slots_) {
    if (slot.launch == nullptr || !slot.between_slices) continue;
    if (!choice.Allows(*slot.place)) continue;
    const LaunchGate::Grant grant = gate_->TryBegin(*slot.place);
    if (grant == LaunchGate::Grant::kNone) continue;
    StartOrEnd(slot, grant, ended);
    choice = gate_->Choose();
  }
  for (uint32_t priority = kPriorities; priority-- > 0;) {
    auto& queue = waiting_[priority];
    for (size_t i = 0; i < queue.size();) {
      if (!choice.Allows(*queue[i].place)) {
        ++i;
        continue;
      }
      StreamSlot* slot = FreeSlot(priority);
      if (slot == nullptr && SlotToMake(priority) != nullptr) return true;
      if (slot == nullptr && no_more_streams_ && StreamsOf(priority) == 0 &&
          !APriorityHasTwoStreams()) {
        for (Waiting& waits : queue) {
          ended.push_back({std::move(waits.launch), EventState::kFailed,
                           static_cast<uint32_t>(EventStatus::kNotLaunched)});
        }
        queue.clear();
        no_more_streams_ = false;  // for those that come later
        break;
      }
      if (slot == nullptr) break;
      const LaunchGate::Grant grant = gate_->TryBegin(*queue[i].place);
      if (grant == LaunchGate::Grant::kNone) {
        ++i;
        continue;
      }
      slot->launch = std::move(queue[i].launch);
      slot->place = std::move(queue[i].place);
      slot->slices = std::move(queue[i].slices);
      queue.erase(queue.begin() + static_cast<ptrdiff_t>(i));
      ++running_;
      StartOrEnd(*slot, grant, ended);
      choice = gate_->Choose();
    }
  }
  return false;
}

Background::StreamSlot* Background::FreeSlot(uint32_t priority) {
  const auto slot =
      std::ranges::find_if(slots_, [=](const StreamSlot& candidate) {
        return candidate.launch == nullptr && candidate.stream &&
               candidate.stream_priority == priority;
      });
  return slot == slots_.end() ? nullptr : &*slot;
}

size_t Background::StreamsOf(uint32_t priority) const {
  return static_cast<size_t>(
      std::ranges::count_if(slots_, [=](const StreamSlot& slot) {
        return slot.stream && slot.stream_priority == priority;
      }));
}

bool Background::APriorityHasTwoStreams() const {
  for (const StreamSlot& slot : slots_) {
    if (slot.stream && StreamsOf(slot.stream_priority) > 1) return true;
  }
  return false;
}

// A slot without a stream; or, so that each priority has one, a free one of a
// priority that has several. So streams are made a few times, and then no more.
Background::StreamSlot* Background::SlotToMake(uint32_t priority) {
  const bool has_one = StreamsOf(priority) != 0;
  StreamSlot* found = nullptr;
  for (StreamSlot& slot : slots_) {
    if (slot.launch != nullptr) continue;
    if (!slot.stream && !no_more_streams_) return &slot;
    if (slot.stream && !has_one && StreamsOf(slot.stream_priority) > 1) {
      found = &slot;
    }
  }
  return found;
}

absl::StatusOr<Stream> Background::MakeStream(SmSet sms,
                                              uint32_t priority) const {
  ASSIGN_OR_RETURN(auto stream, gpu_->MakeStream(sms, priority));
  LeaveDomain(gpu_->driver(), stream.get());
  return stream;
}

absl::Status Background::PrepareForParts() {
  if (!wants_part_streams()) return absl::OkStatus();
  MutexLock lock(mutex_);
  for (StreamSlot& slot : slots_) {
    if (!slot.stream || slot.part_stream) continue;
    lock.Unlock();  // as in MakeStreams()
    auto stream = MakeStream(SmSet::kBackground, 0);
    lock.Lock();
    if (!stream.ok()) return stream.status();
    slot.part_stream = *std::move(stream);
  }
  return absl::OkStatus();
}

void Background::DropParts() {
  MutexLock lock(mutex_);
  for (StreamSlot& slot : slots_) slot.part_stream.Reset();
}

void Background::MakeStreams() {
  const Gpu::PauseResidents quiet(gpu_);
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) return;
  MutexLock lock(mutex_);
  for (uint32_t priority = kPriorities; priority-- > 0;) {
    for (size_t i = 0; i < waiting_[priority].size(); ++i) {
      StreamSlot* slot = SlotToMake(priority);
      if (slot == nullptr) break;
      Stream old = std::move(slot->stream);
      // The driver may not return while a kernel runs on. Under the use, nobody
      // else changes the slot.
      lock.Unlock();
      old.Reset();
      auto stream = MakeStream(SmSet::kRest, priority);
      absl::StatusOr<Stream> part_stream = Stream();
      if (stream.ok() && wants_part_streams() && !slot->part_stream) {
        part_stream = MakeStream(SmSet::kBackground, 0);
        if (!part_stream.ok()) stream = part_stream.status();
      }
      const bool faulted = !stream.ok() && gpu_->Faulted();
      lock.Lock();
      if (faulted) return;
      if (!stream.ok()) {
        spdlog::warn("background kernels get no further stream: {}",
                     stream.status().message());
        no_more_streams_ = true;
        return;
      }
      slot->stream = *std::move(stream);
      if (*part_stream) slot->part_stream = *std::move(part_stream);
      slot->stream_priority = priority;
    }
  }
}

void Background::StartOrEnd(StreamSlot& slot, LaunchGate::Grant grant,
                            std::vector<Ended>& ended) {
  slot.launched = false;
  slot.between_slices = false;
  const absl::Status status = Start(slot, grant);
  // After a fault it is taken up again.
  if (status.ok() || gpu_->Faulted()) return;
  spdlog::warn("background kernel '{}': {}", slot.launch->kmd.kernel->name,
               status.message());
  EndLaunch(slot, EventState::kFailed,
            static_cast<uint32_t>(EventStatus::kNotLaunched), ended);
}

void Background::EndLaunch(StreamSlot& slot, EventState state, uint32_t status,
                           std::vector<Ended>& ended) {
  ended.push_back({std::move(slot.launch), state, status});
  slot.place.reset();
  slot.slices.reset();
  slot.between_slices = false;
  --running_;
}

absl::Status Background::Start(StreamSlot& slot, LaunchGate::Grant grant) {
  const Driver& driver = gpu_->driver();
  const KernelMetadata& kmd = slot.launch->kmd;
  ASSIGN_OR_RETURN(const auto sequence, LaunchSequence::Make(*gpu_, kmd));
  slot.in_slices = grant == LaunchGate::Grant::kSlice;
  SliceSizes& sizes = gate_->slices();
  slot.wave = sizes.WaveOf(sequence.CostOfSlice(kmd));
  if (slot.in_slices && !slot.slices &&
      sizes.First(kmd, slot.wave, sequence.WhyWhole(kmd)) != 0) {
    slot.slices.emplace();
  }
  uint32_t resident = 0;
  if (grant == LaunchGate::Grant::kPtb && !slot.slices) {
    resident =
        gate_->ptb().First(kmd, slot.launch->priority, sequence.has_ptb());
    if (resident != 0) slot.slices.emplace();
  } else if (grant == LaunchGate::Grant::kPtb && sequence.has_ptb()) {
    resident = gate_->ptb().Resident(kmd);
  }
  simt::EventFrame frame =
      FrameOf(slot, slot.slices ? slot.slices->slices() : 0);
  slot.launched_ns = NowNs();
  if (slot.launch->life.dispatched_ns == 0) {
    slot.launch->life.dispatched_ns = slot.launched_ns;
  }
  slot.overdue = false;
  slot.queue_refused = false;
  slot.on_part = slot.part_stream && gate_->reserves();
  GridSlice slice = {.size = kmd.grid};
  if (slot.slices && resident == 0) {
    slice = slot.slices->Begin(
        kmd.grid, slot.in_slices ? sizes.Next(kmd, slot.wave) : kmd.blocks());
    frame.sequence = slot.slices->sequence();
  }
  const CUresult result =
      resident != 0
          ? LaunchPtb(slot, sequence, frame, resident)
          : sequence.LaunchSlice(driver, kmd, frame, slot.launch->args.get(),
                                 StreamOf(slot), slice);
  slot.launched = gpu_->Check(result);
  if (slot.launched || IsContextFault(result)) return absl::OkStatus();
  return ToStatus(driver, result, "launch");
}

simt::EventFrame Background::FrameOf(const StreamSlot& slot,
                                     uint64_t ended_slices) const {
  simt::EventFrame frame{};
  frame.ecq = CompletionOf(slot, ended_slices);
  // One of a slot: what is in one stream runs one after another.
  frame.scratch = scratch_.as<simt::EventScratch>() + (&slot - slots_.data());
  frame.sequence = 1;
  return frame;
}

void Background::QueueSlice(StreamSlot& slot) {
  SlicedRun& run = *slot.slices;
  const KernelMetadata& kmd = slot.launch->kmd;
  if (!slot.in_slices || slot.launch->cancelled || slot.queue_refused ||
      !run.HasMore(kmd.grid)) {
    return;
  }
  SliceSizes& sizes = gate_->slices();
  const auto after = sizes.QueueAfter(kmd, slot.wave, run.slice()->blocks());
  if (!after || NowNs() < run.began_ns() + *after ||
      !gate_->MayQueue(*slot.place)) {
    return;
  }
  const auto sequence = LaunchSequence::Make(*gpu_, kmd);
  if (!sequence.ok()) return;
  const GridSlice& slice = run.Queue(kmd.grid, sizes.Next(kmd, slot.wave));
  simt::EventFrame frame = FrameOf(slot, run.slices() + 1);
  frame.sequence = run.queued_sequence();
  const CUresult result =
      sequence->LaunchSlice(gpu_->driver(), kmd, frame, slot.launch->args.get(),
                            StreamOf(slot), slice);
  if (gpu_->Check(result)) return;
  // It is launched again at the end of the one that runs; then a refusal counts.
  run.Unqueue();
  slot.queue_refused = true;
}

CUresult Background::LaunchPtb(StreamSlot& slot, const LaunchSequence& sequence,
                               simt::EventFrame frame, uint32_t resident) {
  const KernelMetadata& kmd = slot.launch->kmd;
  const auto place = static_cast<size_t>(&slot - slots_.data());
  slot.ptb_blocks = resident;
  slot.slices->BeginPtb();
  frame.sequence = slot.slices->sequence();
  gate_->LetBeStopped(*slot.place, ptb_words_.stop(place));
  return sequence.LaunchPtb(
      gpu_->driver(), kmd, frame, slot.launch->args.get(), StreamOf(slot),
      ptb_words_.SupplyOf(place, kmd.grid, slot.slices->ended_blocks()),
      resident);
}

bool Background::ASliceRuns() const {
  return std::ranges::any_of(slots_, [](const StreamSlot& slot) {
    return slot.launch != nullptr && slot.slices && slot.in_slices &&
           slot.launched;
  });
}

void Background::LookAtSlice(StreamSlot& slot, std::vector<Ended>& ended) {
  const shm::EcqEntry& completion = *CompletionOf(slot);
  if (!slot.slices->HasEnded(completion)) return;
  const KernelMetadata& kmd = slot.launch->kmd;
  const auto place = static_cast<size_t>(&slot - slots_.data());
  const bool late = slot.slices->QueuedHasEnded(
      *CompletionOf(slot, slot.slices->slices() + 1));
  const uint64_t blocks =
      slot.slices->slice() ? slot.slices->slice()->blocks() : 0;
  const bool had_queued = slot.slices->has_queued();
  const auto took_ns =
      slot.slices->End(completion, ptb_words_.ended(place), late);
  if (slot.in_slices) {
    gate_->slices().Ran(kmd, slot.wave, blocks, took_ns);
  }
  if (had_queued) {
    // That one runs now, and has its own time.
    slot.launched_ns = NowNs();
    slot.overdue = false;
    return;
  }
  const bool all = slot.slices->ended_blocks() == kmd.blocks();
  if (!all && !slot.slices->slice()) gate_->ptb().Stopped();
  if (all) {
    EndLaunch(slot, slot.slices->state(), slot.slices->status(), ended);
  } else if (slot.launch->cancelled) {
    EndLaunch(slot, EventState::kAborted,
              static_cast<uint32_t>(*slot.launch->cancelled), ended);
  } else if (!slot.slices->slice()) {
    // It gives its slot to whoever it was stopped for.
    gate_->EndSlice(*slot.place);
    waiting_[slot.launch->priority].push_front({std::move(slot.launch),
                                                std::move(slot.place),
                                                std::move(slot.slices)});
    slot.slices.reset();
    --running_;
  } else {
    slot.launched = false;
    slot.between_slices = true;
    slot.waits_since_ns = NowNs();
    gate_->EndSlice(*slot.place);
  }
}

void Background::Look(std::vector<Ended>& ended) {
  for (StreamSlot& slot : slots_) {
    if (slot.launch == nullptr || !slot.launched) continue;
    if (slot.slices) {
      LookAtSlice(slot, ended);
      if (slot.launch != nullptr && slot.launched && slot.slices) {
        QueueSlice(slot);
      }
      continue;
    }
    const CUresult result = gpu_->driver().cuStreamQuery(StreamOf(slot));
    if (result == CUDA_ERROR_NOT_READY || !gpu_->Check(result)) continue;
    const shm::EcqEntry& completion = *CompletionOf(slot);
    EndLaunch(slot, completion.state, completion.status, ended);
  }
}

void Background::Abandon() {
  MutexLock lock(mutex_);
  for (StreamSlot& slot : slots_) {
    slot.stream.Abandon();
    slot.part_stream.Abandon();
    if (slot.place != nullptr) gate_->ForgetStop(*slot.place);
  }
  ptb_words_.Abandon();
  scratch_.Abandon();
  completions_.Abandon();
}

void Background::TakeUnfinished(LostWork& lost) {
  MutexLock lock(mutex_);
  for (StreamSlot& slot : slots_) {
    if (slot.launch == nullptr) continue;
    --running_;
    ++replaying_;
    std::shared_ptr<KernelLaunch> launch = std::move(slot.launch);
    // It runs again, from its first block, and then has its own time.
    const bool waits =
        slot.overdue && slot.slices && launch->kmd.kernel->is_users();
    if (waits) gate_->slices().NoteWaits(*launch->kmd.kernel);
    const uint64_t slice_blocks =
        slot.slices && !waits ? slot.slices->most_at_once() : 0;
    std::optional<Unfinished::End> ends_as;
    if (launch->cancelled && !slot.overdue) {
      // It may have faulted all the same.
      ends_as = {.state = EventState::kAborted,
                 .status = static_cast<uint32_t>(*launch->cancelled)};
    }
    slot.place.reset();
    slot.slices.reset();
    lost.unfinished.push_back(
        {.kmd = launch->kmd,
         .args = {launch->args.get(),
                  launch->args.get() + launch->kmd.kernel->args_size},
         .end =
             [this, launch](EventState state, uint32_t status) {
               TellEnd(*launch, state, status);
               MutexLock end_lock(mutex_);
               --replaying_;
             },
         .run = {.device =
                     launch->memory == nullptr ? "" : launch->memory->name()},
         .waits = std::exchange(slot.between_slices, false),
         .overdue = slot.overdue,
         .timed_out = slot.overdue && !waits,
         .ends_as = ends_as,
         .slice_blocks = slice_blocks});
  }
  // What has run of them is run again, as of all that had not ended.
  for (auto& queue : waiting_) {
    for (Waiting& waits : queue) waits.slices.reset();
  }
}

Background::StreamSlot* Background::Oldest() {
  StreamSlot* oldest = nullptr;
  for (StreamSlot& slot : slots_) {
    if (slot.launch == nullptr || !slot.launched) continue;
    if (oldest == nullptr || slot.launched_ns < oldest->launched_ns) {
      oldest = &slot;
    }
  }
  return oldest;
}

std::optional<Nanoseconds> Background::OldestTaken(Nanoseconds since) {
  MutexLock lock(mutex_);
  const StreamSlot* oldest = Oldest();
  if (oldest == nullptr || oldest->launched_ns >= since) return std::nullopt;
  return oldest->launched_ns;
}

bool Background::MarkOverdue(Nanoseconds since) {
  MutexLock lock(mutex_);
  StreamSlot* const oldest = Oldest();
  if (oldest == nullptr || oldest->launched_ns >= since) return false;
  const Gpu::ContextLease use = gpu_->TryEnter();
  // Its stream is not ready while a queued slice runs, whose time that is not.
  if (use && oldest->slices &&
      oldest->slices->HasEnded(*CompletionOf(*oldest))) {
    return false;
  }
  if (!use ||
      gpu_->driver().cuStreamQuery(StreamOf(*oldest)) != CUDA_ERROR_NOT_READY) {
    return false;
  }
  return oldest->overdue = true;
}

}  // namespace carillon::gpud::cuda
