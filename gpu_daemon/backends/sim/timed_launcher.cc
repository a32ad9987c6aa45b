#include "gpu_daemon/backends/sim/timed_launcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ostream.h"
#include "fmt/ranges.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/make_launch.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using sim::timing::GridResult;
using sim::timing::kNever;

// After so many, the front-end looks after its callers.
constexpr sim::timing::Cycle kSlice = 1000;
constexpr size_t kStatusesAtOnce = 1024;
// Of the event log, and of the order of launches: no event kernel has it.
constexpr uint32_t kBackground = ~uint32_t{0};

// kNoTime where the sum would be beyond it.
Nanoseconds Later(Nanoseconds at, Nanoseconds by) {
  return std::min(at, shm::kNoTime - by) + by;
}

std::string_view StateName(EventState state) {
  switch (state) {
    case EventState::kDone:
      return "done";
    case EventState::kFailed:
      return "failed";
    case EventState::kAborted:
      return "aborted";
    case EventState::kNone:
      break;
  }
  return "none";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimedLauncher>> TimedLauncher::Make(
    Options options, PtxEngine* ptx, KernelMemory* memory) {
  const std::string log = options.event_log;
  std::unique_ptr<TimedLauncher> launcher(
      new TimedLauncher(std::move(options), ptx, memory));
  // What comes later may find other addresses taken.
  if (!launcher->awaited_.empty()) RETURN_IF_ERROR(launcher->AddStatuses());
  if (log.empty()) return launcher;
  launcher->event_log_.open(log);
  launcher->event_log_
      << "device,event,sequence,kernel,state,status,rung_ns,dispatched_ns,"
         "finished_ns,sm,place,victims\n";
  if (!launcher->event_log_.flush()) {
    return absl::InvalidArgumentError(
        fmt::format("--event-log {}: cannot write there", log));
  }
  return launcher;
}

TimedLauncher::TimedLauncher(Options options, PtxEngine* ptx,
                             KernelMemory* memory)
    : options_(std::move(options)),
      ptx_(ptx),
      gpu_(options_.gpu, &ptx->memory,
           {.printed = &printed_,
            .ended =
                [this](const GridResult& result) {
                  ended_.push_back(result);
                  gpu_.Stop();
                }}),
      awaited_(options_.device_order.begin(), options_.device_order.end()),
      copies_(memory, options_.copy_chunks, options_.gpu) {}

absl::Status TimedLauncher::Prepare(EventKernel& event) {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  if (ptx_->kernels.Find(&kernel).entry != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: the simulated GPU has no PTX of it", kernel.name));
}

// --- Devices and their turns.

void TimedLauncher::AddDevice(const std::shared_ptr<DeviceMemory>& memory) {
  const auto place = std::upper_bound(
      participants_.begin(), participants_.end(), memory->name(),
      [](const std::string& name, const auto& other) {
        return name < other->memory->name();
      });
  Participant& participant = **participants_.insert(
      place, std::make_unique<Participant>(Participant{
                 .memory = memory,
                 .turns = {&memory->submission(), &memory->completion()}}));
  ++devices_so_far_;
  awaited_.erase(memory->name());
  Give(participant, now_ns());
}

void TimedLauncher::ReleaseDevice(const DeviceMemory* memory) {
  event_log_.flush();  // somebody may want to read it now
  std::erase_if(participants_,
                [&](const auto& one) { return one->memory.get() == memory; });
  ready_ = false;
}

TimedLauncher::Participant* TimedLauncher::Find(const DeviceMemory* memory) {
  for (const auto& participant : participants_) {
    if (participant->memory.get() == memory) return participant.get();
  }
  return nullptr;
}

// Its session will end; until then it is as if it were not there.
void TimedLauncher::Evict(Participant& participant, std::string reason) {
  participant.state = Participant::State::kEvicted;
  if (options_.on_violation) {
    options_.on_violation(participant.memory, std::move(reason));
  }
}

void TimedLauncher::Give(Participant& participant, Nanoseconds now) {
  participant.state = Participant::State::kHasTurn;
  participant.now = now;
  participant.due = false;
  participant.turns.Give(now);
  participant.memory->bell().Signal();
  ready_ = false;
}

void TimedLauncher::SetWaitsFor(std::string why) {
  MutexLock lock(waits_for_mutex_);
  waits_for_ = std::move(why);
}

std::string TimedLauncher::waits_for() const {
  MutexLock lock(waits_for_mutex_);
  return waits_for_;
}

bool TimedLauncher::CollectAnswers() {
  std::string waits_for;
  for (const auto& participant : participants_) {
    if (participant->state != Participant::State::kHasTurn) continue;
    const auto next = participant->turns.Answer();
    if (!next) {
      waits_for +=
          (waits_for.empty() ? "" : ", ") + participant->memory->name();
    } else if (*next <= participant->now) {
      Evict(*participant,
            fmt::format("at {} ns it asked for its next turn at {} ns",
                        participant->now, *next));
    } else {
      participant->state = Participant::State::kHasAnswered;
      participant->next = *next;
      looked_since_answers_ = false;
    }
  }
  if (!awaited_.empty()) {
    waits_for = fmt::format("{}", fmt::join(awaited_, ", "));
  } else if (!has_begun()) {
    waits_for = fmt::format("{} of {} devices", devices_so_far_,
                            options_.first_devices);
  }
  const bool all = waits_for.empty();
  if (!all || !ready_) SetWaitsFor(std::move(waits_for));
  return all;
}

bool TimedLauncher::must_poll() const {
  if (ready_) return true;
  if (!has_begun()) return false;
  bool any = false;
  for (const auto& participant : participants_) {
    if (participant->state != Participant::State::kHasTurn) continue;
    if (!participant->turns.Answer()) return false;
    any = true;
  }
  return any;
}

// --- Time.

sim::timing::Cycle TimedLauncher::CycleAt(Nanoseconds ns) const {
  // Beyond it, the product does not fit.
  if (ns >= kNever / options_.gpu.clock.core_mhz - 1) return kNever;
  return (ns * options_.gpu.clock.core_mhz + 999) / 1000;
}

// The doorbells that were rung in a turn are there when its answer is: they are
// looked at between the answers and the next step.
bool TimedLauncher::Advance() {
  const bool answered = CollectAnswers();
  if (!answered) return ready_ = false;
  if (!std::exchange(looked_since_answers_, true)) return ready_ = true;
  ready_ = Step();
  return ready_;
}

// False: nothing will happen until somebody does something.
bool TimedLauncher::Step() {
  Nanoseconds least = shm::kNoTime;
  bool due = false;
  for (const auto& participant : participants_) {
    if (participant->state != Participant::State::kHasAnswered) continue;
    least = std::min(least, participant->next);
    due |= participant->due;
  }
  if (!arrivals_.empty()) least = std::min(least, arrivals_.begin()->first);
  const Nanoseconds now = std::max(now_ns(), gpu_.nanoseconds());
  if (due) {
    GiveTurns(now);
    return true;
  }
  while (!waiting_.empty() &&
         CycleAt(std::get<0>(waiting_.begin()->first)) <= gpu_.cycle()) {
    auto first = waiting_.extract(waiting_.begin());
    Start(first.key(), std::move(first.mapped()));
  }
  Cycle until = CycleAt(least);
  if (!waiting_.empty()) {
    until = std::min(until, CycleAt(std::get<0>(waiting_.begin()->first)));
  }
  until = std::min(until, CycleAt(copies_.next()));
  if (!gpu_.stands_still()) {
    until = std::min(until, gpu_.cycle() + kSlice);
  } else if (until == kNever) {
    return false;
  }
  Simulate(until);
  EndAll();
  now_ns_.store(std::max(now_ns(), gpu_.nanoseconds()),
                std::memory_order_relaxed);
  EndCopies(copies_.AdvanceTo(now_ns()));
  const Nanoseconds reached = gpu_.cycle() >= CycleAt(least) ? least : 0;
  ArriveUntil(reached);
  GiveTurns(reached);
  return true;
}

// A user's kernel reaches all memory, so none of it goes meanwhile.
void TimedLauncher::Simulate(Cycle until) {
  const sim::Turns::Turn turn(&ptx_->turns);
  if (auto now = ptx_->memory.table(); now != segments_) {
    segments_ = std::move(now);
    gpu_.TakeSegments();
  }
  gpu_.Run(until);
}

// To those who are due, and to those who have asked for one until then.
void TimedLauncher::GiveTurns(Nanoseconds until) {
  for (const auto& participant : participants_) {
    if (participant->state != Participant::State::kHasAnswered) continue;
    if (participant->next <= until) {
      Give(*participant, participant->next);
    } else if (participant->due) {
      Give(*participant, now_ns());
    }
  }
}

// --- Launches.

bool TimedLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                           shm::Sequence sequence, CheckedEntry& entry) {
  looked_since_answers_ = false;
  Participant* const participant = Find(&event->memory());
  auto launch = MakeLaunch(event, sequence, entry);
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  const std::string& name = event->memory().name();
  Due due{Later(entry.rung_ns, LatencyOf(name)), name, event->event_id(),
          sequence.value()};
  if (participant != nullptr && participant->now > entry.rung_ns) {
    Evict(*participant,
          fmt::format("event {} of '{}' was rung at {} ns, and it was {} ns",
                      sequence.value(), event->kmd().kernel->name,
                      entry.rung_ns, participant->now));
  }
  if (participant == nullptr ||
      participant->state == Participant::State::kEvicted) {
    Finish(std::move(launch), due, EventState::kAborted,
           static_cast<uint32_t>(EventStatus::kDeviceGone), nullptr);
    return true;
  }
  waiting_.emplace(std::move(due), std::move(launch));
  return false;
}

void TimedLauncher::Refused(const EventKernel& event) {
  looked_since_answers_ = false;
  if (Participant* const participant = Find(&event.memory())) {
    participant->due = true;
  }
}

void TimedLauncher::Submit(std::unique_ptr<KernelLaunch> launch) {
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  background_kernels_.fetch_add(1, std::memory_order_relaxed);
  background_blocks_.fetch_add(launch->kmd.blocks(), std::memory_order_relaxed);
  const auto [now, order] = BeginCall(launch->memory.get());
  launch->life.queued_ns = now;
  waiting_.emplace(Due{now, launch->memory->name(), kBackground, order},
                   std::move(launch));
}

void TimedLauncher::Submit(std::unique_ptr<MemoryCopy> copy) {
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  const auto [now, order] = BeginCall(copy->memory.get());
  copy->queued_ns = now;
  copies_.Submit(std::move(copy), order);
}

std::pair<Nanoseconds, uint64_t> TimedLauncher::BeginCall(
    const DeviceMemory* memory) {
  Participant* const participant = Find(memory);
  if (participant == nullptr) return {now_ns(), 0};
  if (participant->state != Participant::State::kEvicted) {
    participant->state = Participant::State::kLaunches;
  }
  return {Later(participant->now, LatencyOf(memory->name())),
          ++participant->calls};
}

void TimedLauncher::NoteEnd(const DeviceMemory* memory, bool call) {
  Participant* const participant = Find(memory);
  if (participant == nullptr) return;
  participant->due = true;
  if (call && participant->state == Participant::State::kLaunches) {
    participant->state = Participant::State::kHasAnswered;
    participant->next = shm::kNoTime;
  }
}

void TimedLauncher::EndCopies(std::vector<TimedCopies::Ended> ended) {
  for (auto& [copy, at] : ended) {
    const LaunchResult result = copy->ResultAt(at);
    const std::string& name = copy->memory->name();
    if (event_log_.is_open()) {
      fmt::print(event_log_, "{},,,{},{},{},{},{},{},,,0\n", name,
                 copy->direction == CopyDirection::kIn ? "copy_in" : "copy_out",
                 StateName(result.state), result.status,
                 copy->queued_ns - LatencyOf(name), result.dispatched_ns, at);
    }
    Send({.memory = copy->memory,
          .call = true,
          .copy = std::move(copy),
          .result = result});
  }
}

absl::Status TimedLauncher::AddStatuses() {
  ASSIGN_OR_RETURN(const auto block,
                   ptx_->memory.Allocate(kStatusesAtOnce * sizeof(uint32_t),
                                         "status of kernels"));
  auto* const words = reinterpret_cast<uint32_t*>(
      ptx_->memory.At(block, kStatusesAtOnce * sizeof(uint32_t))->data());
  for (size_t i = kStatusesAtOnce; i-- > 0;) {
    free_statuses_.push_back(statuses_.size());
    statuses_.emplace_back(block + i * sizeof(uint32_t), words + i);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TimedLauncher::TakeStatus() {
  if (free_statuses_.empty()) RETURN_IF_ERROR(AddStatuses());
  const size_t index = free_statuses_.back();
  free_statuses_.pop_back();
  *statuses_[index].second = simt::kFailNone;
  return index;
}

void TimedLauncher::Start(Due due, std::unique_ptr<KernelLaunch> launch) {
  const KernelMetadata& kmd = launch->kmd;
  const SimKernels::Code code = ptx_->kernels.Find(kmd.kernel);
  if (code.entry == nullptr) {
    LogEventFailure(fmt::format("{}: the simulated GPU has no PTX of it",
                                kmd.kernel->name));
    return EndUnstarted(std::move(launch), due, simt::kFailBadLaunch);
  }
  const auto status = TakeStatus();
  if (!status.ok()) {
    return EndUnstarted(std::move(launch), due, simt::kFailNoMemory);
  }
  sim::Launch grid;
  SimKernels::FillIn(code, kmd, launch->args.get(), statuses_[*status].first,
                     grid);
  const auto id =
      gpu_.Submit(std::move(grid),
                  {.priority = launch->priority,
                   .event = launch->is_event(),
                   .device = reinterpret_cast<uintptr_t>(launch->memory.get()),
                   .weight = launch->memory->share().weight()});
  if (!id.ok()) {
    free_statuses_.push_back(*status);
    LogEventFailure(std::string(id.status().message()));
    return EndUnstarted(std::move(launch), due, simt::kFailBadLaunch);
  }
  running_.emplace(*id, Running{.launch = std::move(launch),
                                .due = std::move(due),
                                .status = *status});
}

void TimedLauncher::EndAll() {
  for (const GridResult& result : std::exchange(ended_, {})) {
    auto found = running_.extract(result.id);
    if (!found.empty()) End(std::move(found.mapped()), result);
  }
  gpu_.ForgetResults();
  if (printed_.empty()) return;
  spdlog::info("a kernel prints: {}", printed_.Take());
}

void TimedLauncher::End(Running running, const GridResult& result) {
  uint32_t fail_status = *statuses_[running.status].second;
  free_statuses_.push_back(running.status);
  if (const auto why = running.launch->cancelled) {
    return Finish(std::move(running.launch), running.due, EventState::kAborted,
                  static_cast<uint32_t>(*why), &result);
  }
  if (!result.status.ok()) {
    LogEventFailure(std::string(result.status.message()));
    fail_status = SimKernels::FailStatusOf(result.status);
  }
  Finish(std::move(running.launch), running.due,
         fail_status == 0 ? EventState::kDone : EventState::kFailed,
         simt::CompletionStatus(fail_status), &result);
}

void TimedLauncher::EndUnstarted(std::unique_ptr<KernelLaunch> launch,
                                 const Due& due, uint32_t fail_status) {
  Finish(std::move(launch), due, EventState::kFailed,
         simt::CompletionStatus(fail_status), nullptr);
}

// `result`: null if it has never started.
void TimedLauncher::Finish(std::unique_ptr<KernelLaunch> ended, const Due& due,
                           EventState state, uint32_t status,
                           const GridResult* result) {
  KernelLaunch& launch = *ended;
  const bool started = result != nullptr && result->dispatched != kNever;
  const Nanoseconds dispatched =
      started ? gpu_.NanosecondsAt(result->dispatched) : 0;
  const Nanoseconds finished =
      result != nullptr ? gpu_.NanosecondsAt(result->completed) : now_ns();
  const Nanoseconds rung = std::get<0>(due) - LatencyOf(std::get<1>(due));
  if (event_log_.is_open()) {
    fmt::print(
        event_log_, "{},{},{},{},{},{},{},{},{},{},{},{}\n", std::get<1>(due),
        launch.is_event() ? std::to_string(std::get<2>(due)) : "",
        std::get<3>(due), launch.kmd.kernel->name, StateName(state), status,
        rung, dispatched, finished, started ? std::to_string(result->sm) : "",
        started && launch.is_event() ? NameOf(result->place) : "",
        started ? result->victims : 0);
  }
  launch.life.queued_ns = std::get<0>(due);
  launch.life.dispatched_ns = dispatched;
  launch.life.finished_ns = finished;
  if (launch.is_event()) {
    launch.life.rung_ns = rung;
    launch.life.seen_ns = launch.life.queued_ns;
  }
  Arrival arrival{.memory = launch.memory,
                  .call = !launch.is_event(),
                  .result = launch.ResultOf(state, status)};
  arrival.launch = std::move(ended);
  Send(std::move(arrival));
}

// --- Links.

Nanoseconds TimedLauncher::LatencyOf(std::string_view device) const {
  const auto found = options_.latencies.find(device);
  return found == options_.latencies.end() ? 0 : found->second;
}

void TimedLauncher::Send(Arrival arrival) {
  const Nanoseconds latency = LatencyOf(arrival.memory->name());
  if (latency == 0 || arrival.result.state == EventState::kAborted) {
    return Arrive(std::move(arrival));
  }
  const Nanoseconds now = std::max(now_ns(), gpu_.nanoseconds());
  arrivals_.emplace(Later(now, latency), std::move(arrival));
}

void TimedLauncher::Arrive(Arrival arrival) {
  NoteEnd(arrival.memory.get(), arrival.call);
  unfinished_.fetch_sub(1, std::memory_order_relaxed);
  if (arrival.copy != nullptr) return arrival.copy->on_end(arrival.result);
  KernelLaunch& launch = *arrival.launch;
  if (!launch.is_event()) return launch.on_end(arrival.result);
  launch.event->ledger().Finish(launch.sequence,
                                {.state = arrival.result.state,
                                 .status = arrival.result.status,
                                 .life = &launch.life});
}

void TimedLauncher::ArriveUntil(Nanoseconds now) {
  while (!arrivals_.empty() && arrivals_.begin()->first <= now) {
    auto first = arrivals_.extract(arrivals_.begin());
    Participant* const participant = Find(first.mapped().memory.get());
    Arrive(std::move(first.mapped()));
    // Its turn is at that very time, whatever cycle the GPU is in.
    if (participant != nullptr) {
      participant->next = std::min(participant->next, first.key());
    }
  }
}

std::vector<LaunchProgress> TimedLauncher::launches() const {
  std::vector<LaunchProgress> all;
  for (const auto& [id, running] : running_) {
    const auto progress = gpu_.progress(id);
    if (!progress) continue;
    LaunchProgress& shown = all.emplace_back(ProgressOf(*running.launch));
    shown.ended = progress->ended;
    shown.running = progress->started - progress->ended;
    shown.slices = progress->slices;
    const Nanoseconds since = gpu_.NanosecondsAt(progress->waits_since);
    if (progress->started < shown.blocks) {
      shown.wait_ns = now_ns() - std::min(now_ns(), since);
    }
  }
  for (const auto& [due, launch] : waiting_) {
    all.push_back(ProgressOf(*launch));
  }
  return all;
}

void TimedLauncher::ReleaseBarrier(const DeviceMemory& device) {
  looked_since_answers_ = false;
  const Participant* const participant = Find(&device);
  gpu_.ReleaseThreads(
      CycleAt(participant != nullptr ? participant->now : now_ns()));
}

void TimedLauncher::Cancel(const LaunchFilter& which, EventStatus why) {
  looked_since_answers_ = false;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!which.Matches(*at->second)) {
      ++at;
      continue;
    }
    auto taken = waiting_.extract(at++);
    Finish(std::move(taken.mapped()), taken.key(), EventState::kAborted,
           static_cast<uint32_t>(why), nullptr);
  }
  // What has ended on the GPU stays ended.
  for (auto at = arrivals_.begin(); at != arrivals_.end();) {
    const Arrival& arrival = at->second;
    const bool matches = arrival.copy != nullptr
                             ? which.Matches(*arrival.copy)
                             : which.Matches(*arrival.launch);
    if (!matches) {
      ++at;
      continue;
    }
    Arrive(std::move(arrivals_.extract(at++).mapped()));
  }
  std::vector<sim::timing::GridId> grids;
  for (auto& [id, running] : running_) {
    if (!which.Matches(*running.launch)) continue;
    running.launch->cancelled = why;
    grids.push_back(id);
  }
  for (const auto id : grids) gpu_.Cancel(id).IgnoreError();
  EndAll();
  EndCopies(copies_.Cancel(which, why, now_ns()));
}

}  // namespace carillon::gpud
