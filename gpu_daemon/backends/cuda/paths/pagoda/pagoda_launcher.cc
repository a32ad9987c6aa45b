#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_launcher.h"

#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/pagoda/spawned_tasks.h"
#include "gpu_daemon/event/backend.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

constexpr std::string_view kName = "pagoda";
constexpr char kMasterKernel[] = "carillon_pagoda";
// Tasks that one Reap() looks at.
constexpr size_t kMaxLooks = 64;
// A successor that is on its way is there by then; an empty update costs two
// copies.
constexpr Nanoseconds kEmptyUpdateAfterNs = 50'000;
// While the table is full and nothing ends.
constexpr Nanoseconds kTryAgainAfterNs = 100'000;
constexpr Nanoseconds kLookAfterMtbsNs = 2'000'000;
// Between two looks at the MTBs' sign of life.
constexpr Nanoseconds kMaxDeafNs = 100'000'000;
constexpr std::chrono::milliseconds kLookEvery{10};
// With tasks of a ring that goes.
constexpr Nanoseconds kPatienceNs = 100'000'000;
// Of all MTBs, without an event having ended in between.
constexpr uint32_t kMaxLosses = 3;

Nanoseconds LongestKernelNs(const Gpu& gpu) {
  return static_cast<Nanoseconds>(
      std::chrono::nanoseconds(gpu.longest_kernel()).count());
}

void FinishAndSignal(EventKernel& event, shm::Sequence sequence,
                     EventState state, EventStatus status) {
  if (event.ledger().Finish(
          sequence,
          {.state = state, .status = static_cast<uint32_t>(status)})) {
    event.memory().bell().Signal();
  }
}

}  // namespace

PagodaLauncher::PagodaLauncher(Gpu* gpu)
    : gpu_(gpu), link_(gpu), next_look_(spawned_.end()) {}

absl::StatusOr<std::unique_ptr<PagodaLauncher>> PagodaLauncher::Create(
    Gpu* gpu) {
  std::unique_ptr<PagodaLauncher> launcher(new PagodaLauncher(gpu));
  RETURN_IF_ERROR(launcher->Open());
  return launcher;
}

absl::Status PagodaLauncher::Open() {
  gpu_->AddTrap(&words_->control.trap);
  // First: a context that is lost meanwhile takes along what was made in it.
  gpu_->Add(static_cast<Gpu::ContextUser*>(this));
  if (absl::Status status = TryToOpen(); !status.ok()) {
    Close();
    return status;
  }
  gpu_->Add(static_cast<Gpu::PersistentWork*>(this));
  return absl::OkStatus();
}

// A MasterKernel is tried: it must come to rest.
absl::Status PagodaLauncher::TryToOpen() {
  const Gpu::PauseResidents quiet(gpu_);
  while (true) {
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    MutexLock lock(mutex_);
    FreeShared();  // of the last try
    absl::Status status = MakeShared();
    if (status.ok()) {
      running_ = true;
      status = Begin(1);
      if (!End() && status.ok()) {
        status = absl::UnimplementedError(fmt::format(
            "the MasterKernel of launch path {} does not come to rest", kName));
      }
    }
    prepared_ = status.ok();
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

PagodaLauncher::~PagodaLauncher() {
  bool opened = false;
  {
    MutexLock lock(mutex_);
    opened = prepared_;
  }
  if (!opened) return;
  {
    const Gpu::PauseResidents quiet(gpu_);
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  gpu_->Remove(static_cast<Gpu::PersistentWork*>(this));
  Close();
}

void PagodaLauncher::Close() {
  {
    const Gpu::PauseResidents quiet(gpu_);
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) Abandon();
    MutexLock lock(mutex_);
    prepared_ = false;
    FreeShared();
  }
  gpu_->Remove(static_cast<Gpu::ContextUser*>(this));
  gpu_->RemoveTrap(&words_->control.trap);
}

absl::Status PagodaLauncher::MakeShared() {
  const Driver& driver = gpu_->driver();
  RETURN_IF_ERROR(words_.Register(driver));
  RETURN_IF_ERROR(master_.Load(*gpu_, kName, kMasterKernel));
  ASSIGN_OR_RETURN(stream_, gpu_->MakeStream(SmSet::kRest, kPriorities - 1));
  ASSIGN_OR_RETURN(shared_words_,
                   DeviceBytes::Make(driver, sizeof(PagodaWords)));
  return link_.Prepare(master_.most_mtbs() * kTaskMaxRows);
}

void PagodaLauncher::FreeShared() {
  stream_.Reset();
  link_.Free();
  shared_words_ = DeviceBytes();
  master_.Reset();
  words_.Unregister();
}

// --- Event kernels.

absl::Status PagodaLauncher::Prepare(EventKernel& event) {
  RETURN_IF_ERROR(CheckTaskKernel(event, kName, kSpawnedMaxArgs));
  const Gpu::PauseResidents quiet(gpu_);
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) return gpu_->health();
  MutexLock lock(mutex_);
  if (!given_up_.ok()) return given_up_;
  if (room_ == nullptr) {
    ASSIGN_OR_RETURN(room_,
                     gpu_->TakeRoom(kName, master_.cost(), 1, 1, SmSet::kRest));
  }
  event.ledger().ExpectEpilogues();
  registered_[&event] = {.kernel = TaskKernelNumber(*event.kmd().kernel),
                         .kmd = event.kmd(),
                         .entries = event.ring().layout().entries};
  return absl::OkStatus();
}

// In the front-end's thread, where the driver may not be waited for: the MTBs stay
// until Cancel(), NotAdded() or the next quiet.
void PagodaLauncher::Release(EventKernel& event) {
  MutexLock lock(mutex_);
  registered_.erase(&event);
}

void PagodaLauncher::NotAdded() {
  {
    MutexLock lock(mutex_);
    if (!IsForNobody()) return;
  }
  const Gpu::PauseResidents quiet(gpu_);
}

// --- The MasterKernel.

absl::Status PagodaLauncher::Start() {
  if (running_ || paused_ || stopped_ || registered_.empty() ||
      !given_up_.ok()) {
    return absl::OkStatus();
  }
  running_ = true;
  WantedMtbs wanted;
  for (const auto& [event, registered] : registered_) {
    wanted.Add(registered.kmd, registered.entries);
  }
  begun_ = Begin(room_->Resize(wanted.AtMost(master_.most_mtbs())));
  return begun_;
}

absl::Status PagodaLauncher::Begin(uint32_t mtbs) {
  const Driver& driver = gpu_->driver();
  RETURN_IF_ERROR(link_.Clear());
  const PagodaWords shared{};
  CUresult result = shared_words_.Write(driver, &shared, sizeof(shared));
  if (result == CUDA_SUCCESS) {
    StoreWord(words_->report.up, 0u);
    StoreWord(words_->report.any, 0u);
    StoreWord(words_->report.reports, 0u);
    StoreWord(words_->control.trap, 0u);
    StoreWord(words_->control.command, 0u);
    auto* const words = shared_words_.as<PagodaWords>();
    PagodaRingTable table{.tasks = {.entries = link_.table(),
                                    .command = shared_words_.as<uint32_t>(
                                        offsetof(PagodaWords, command)),
                                    .columns = mtbs,
                                    .rows = kTaskMaxRows,
                                    .executors = kTaskMaxExecutors},
                          .records = nullptr,
                          .rings = nullptr,
                          .words = words,
                          .control = &words_->control,
                          .report = &words_->report,
                          .ring_count = 0};
    void* parameters[] = {&table};
    result = driver.cuLaunchKernel(master_.function(), mtbs, 1, 1, kMtbThreads,
                                   1, 1, 0, stream_.get(), parameters, nullptr);
    begun_ns_ = NowNs();
    heard_ns_ = begun_ns_;
  }
  gpu_->Check(result);
  RETURN_IF_ERROR(ToStatus(driver, result, "launch the MasterKernel"));
  mtbs_.store(mtbs, std::memory_order_relaxed);
  full_ns_ = 0;
  spawner_.emplace(
      &link_, mtbs, kTaskMaxRows, kTaskMaxExecutors,
      TaskSpawnerOptions{.write = TaskWrite::kCopy,
                         .empty_update_after = kEmptyUpdateAfterNs,
                         // Doorbells do not wait while the table is full;
                         // events do.
                         .longest_full = 0});
  return absl::OkStatus();
}

bool PagodaLauncher::IsIdle() {
  const CUresult result = gpu_->driver().cuStreamQuery(stream_.get());
  if (result != CUDA_ERROR_NOT_READY) gpu_->Check(result);
  return result == CUDA_SUCCESS && link_.IsIdle();
}

bool PagodaLauncher::IsLate() const {
  return NowNs() - told_ns_ > LongestKernelNs(*gpu_);
}

bool PagodaLauncher::AwaitIdle() {
  while (true) {
    // Before the look: this process may have stood still meanwhile.
    const bool late = IsLate();
    if (IsIdle()) return true;
    if (gpu_->Faulted()) return false;
    if (late) {
      spdlog::warn(
          "the MTBs of launch path {} did not come to rest: all that runs is "
          "stopped, and the CUDA context with it",
          kName);
      gpu_->StopEverything();
      return false;
    }
    sched_yield();
  }
}

void PagodaLauncher::DropSpawner() {
  if (!spawner_) return;
  NoteFigures();
  empty_updates_before_ = empty_updates_.load(std::memory_order_relaxed);
  copies_back_before_ = copies_back_.load(std::memory_order_relaxed);
  spawner_.reset();
}

void PagodaLauncher::NoteFigures() {
  const TaskSpawner::Figures& figures = spawner_->figures();
  empty_updates_.store(empty_updates_before_ + figures.empty_updates,
                       std::memory_order_relaxed);
  copies_back_.store(copies_back_before_ + figures.copies_back,
                     std::memory_order_relaxed);
}

void PagodaLauncher::TellToLeave() {
  StoreWord(words_->control.command, kPagodaLeave);
  told_ns_ = NowNs();
}

bool PagodaLauncher::End() {
  if (!running_) return true;
  running_ = false;
  if (told_ns_ == 0) TellToLeave();
  const bool idle = AwaitIdle();
  told_ns_ = 0;
  if (!idle) return false;
  mtbs_.store(0, std::memory_order_relaxed);
  DropSpawner();
  Reap(spawned_.size());
  // Nothing of the others has begun.
  waiting_.splice(waiting_.begin(), spawned_);
  next_look_ = spawned_.end();
  return true;
}

void PagodaLauncher::Pause() {
  while (const Gpu::ContextLease use = gpu_->Enter()) {
    MutexLock lock(mutex_);
    paused_ = true;
    if (End()) return;
  }
}

// Where it cannot start, the context is lost, and recovery tries again; or the
// front-end's thread does, which looks after the MTBs.
void PagodaLauncher::Unpause() {
  const Gpu::ContextLease use = gpu_->Enter();
  MutexLock lock(mutex_);
  paused_ = false;
  if (registered_.empty()) room_.reset();
  if (use) Start().IgnoreError();
}

// --- Events.

bool PagodaLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                            shm::Sequence sequence, CheckedEntry& entry) {
  const auto fail = [&](EventStatus status, bool refused) {
    return event->ledger().Finish(sequence,
                                  {.state = EventState::kFailed,
                                   .status = static_cast<uint32_t>(status),
                                   .refused = refused});
  };
  if (event->modifyable() && !CheckTaskShape(entry.kmd).ok()) {
    return fail(EventStatus::kBadKmd, true);
  }
  MutexLock lock(mutex_);
  const auto registered = registered_.find(event.get());
  if (!given_up_.ok() || registered == registered_.end() ||
      !gpu_->health().ok()) {
    return fail(EventStatus::kNotLaunched, false);
  }
  waiting_.push_back({.event = event,
                      .sequence = sequence,
                      .kmd = entry.kmd,
                      .args = {entry.args.data(),
                               entry.args.data() + entry.kmd.kernel->args_size},
                      .life = entry.life,
                      .kernel = registered->second.kernel});
  if (const Gpu::ContextLease use = gpu_->TryEnter()) Spawn();
  return false;
}

bool PagodaLauncher::Spawn() {
  if (!running_ || told_ns_ != 0 || waiting_.empty() || !spawner_ ||
      LoadWord(words_->report.up) == 0) {
    return false;
  }
  if (full_ns_ != 0 && ended_ == ended_when_full_ &&
      NowNs() - full_ns_ < kTryAgainAfterNs) {
    return false;
  }
  full_ns_ = 0;
  bool spawned = false;
  while (!waiting_.empty()) {
    Task& task = waiting_.front();
    const absl::StatusOr<TaskId> id = Spawn(task);
    if (absl::IsResourceExhausted(id.status())) {
      full_ns_ = NowNs();
      ended_when_full_ = ended_;
      break;
    }
    if (!id.ok()) {
      // It waits for the next context.
      if (gpu_->Faulted()) break;
      FinishAndSignal(*task.event, task.sequence, EventState::kFailed,
                      EventStatus::kNotLaunched);
      waiting_.pop_front();
      continue;
    }
    // Its last warp tells the device.
    spawner_->Forget(*id);
    task.entry = spawner_->EntryOf(*id);
    // Once, also where it is spawned again.
    if (task.spawned_ns == 0) tasks_.fetch_add(1, std::memory_order_relaxed);
    task.spawned_ns = NowNs();
    task.seen_running_ns = 0;
    spawned_.splice(spawned_.end(), waiting_, waiting_.begin());
    spawned = true;
  }
  return spawned;
}

absl::StatusOr<TaskId> PagodaLauncher::Spawn(Task& task) {
  const EventKernel& event = *task.event;
  RingTask record{};
  record.frame.ecq = event.ring().completion_slot(task.sequence);
  record.frame.sequence = task.sequence.value();
  record.grid = task.kmd.grid;
  record.block = task.kmd.block;
  record.shared_bytes = task.kmd.total_shared();
  if (task.life.seen_ns != 0) {
    task.life.dispatched_ns = NowNs();
    event.ring().life(task.sequence) = task.life;
    record.frame.life = &event.ring().life(task.sequence);
    record.frame.clock_offset_ns = gpu_->clock_offset_ns();
  } else if (event.ring().life(task.sequence).seen_ns != 0) {
    // An earlier lap's must not be taken for this one's.
    event.ring().life(task.sequence) = {};
  }
  std::byte bytes[kTaskMaxArgs];
  std::memcpy(bytes, &record, sizeof(record));
  std::memcpy(bytes + sizeof(record), task.args.data(), task.args.size());
  return spawner_->Spawn(
      {.blocks = static_cast<uint32_t>(task.kmd.blocks()),
       .threads = task.kmd.threads(),
       .shared_bytes = task.kmd.total_shared(),
       .sync = task.kmd.kernel->uses_barriers},
      task.kernel, std::span(bytes).first(sizeof(record) + task.args.size()));
}

bool PagodaLauncher::must_poll() const {
  MutexLock lock(mutex_);
  return !waiting_.empty() || !spawned_.empty();
}

bool PagodaLauncher::Reap() {
  MutexLock lock(mutex_);
  if (waiting_.empty() && spawned_.empty()) return false;
  const Gpu::ContextLease use = gpu_->TryEnter();
  if (!use) {
    // There is no context to wait for: recovery has ended what was spawned.
    if (!gpu_->health().ok()) FailAll(waiting_);
    return false;
  }
  const bool ended = Reap(kMaxLooks);
  const bool spawned = Spawn();
  if (spawner_) {
    // No successor comes while nothing waits.
    if (!spawned && told_ns_ == 0) spawner_->Advance().IgnoreError();
    NoteFigures();
  }
  LookAfterMtbs();
  return ended || spawned;
}

bool PagodaLauncher::Reap(size_t looks) {
  bool ended = false;
  for (looks = std::min(looks, spawned_.size()); looks != 0; --looks) {
    if (next_look_ == spawned_.end()) next_look_ = spawned_.begin();
    EventKernel& event = *next_look_->event;
    if (!event.ledger().NoteEnded(next_look_->sequence)) {
      ++next_look_;
      continue;
    }
    event.memory().bell().Signal();
    next_look_ = spawned_.erase(next_look_);
    ++ended_;
    ended = true;
  }
  if (ended) ended_some_.NotifyAll();
  return ended;
}

std::string PagodaLauncher::WhyLost() {
  if (!begun_.ok()) return std::string(begun_.message());
  if (LoadWord(words_->report.up) == 0 &&
      NowNs() - begun_ns_ > LongestKernelNs(*gpu_)) {
    return fmt::format(
        "{} of its {} MTBs have found room on the GPU within {} ms",
        LoadWord(words_->report.any) == 0 ? "none" : "not all",
        mtbs_.load(std::memory_order_relaxed),
        LongestKernelNs(*gpu_) / 1'000'000);
  }
  const CUresult result = gpu_->driver().cuStreamQuery(stream_.get());
  if (result != CUDA_ERROR_NOT_READY) gpu_->Check(result);
  if (result == CUDA_SUCCESS) return "the MTBs ended by themselves";
  if (NowNs() - heard_ns_ <= LongestKernelNs(*gpu_)) return {};
  return fmt::format("its first MTB has given no sign of life for {} ms",
                     LongestKernelNs(*gpu_) / 1'000'000);
}

// Silence is what is heard, not the time between two looks: nobody looks while no
// event is there, and this process may have stood still.
void PagodaLauncher::Listen(Nanoseconds now) {
  const uint64_t reports = LoadWord(words_->report.reports);
  const bool looks_on = now - looked_ns_ < kMaxDeafNs;
  if (reports != std::exchange(reports_, reports) || !looks_on) heard_ns_ = now;
}

void PagodaLauncher::LookAfterMtbs() {
  const Nanoseconds now = NowNs();
  if (!running_ || now - looked_ns_ < kLookAfterMtbsNs) return;
  Listen(now);
  looked_ns_ = now;
  if (told_ns_ == 0) {
    why_told_ = WhyLost();
    if (why_told_.empty()) return;
    TellToLeave();
  }
  const bool late = IsLate();
  if (late || IsIdle() || gpu_->Faulted()) BeginAgain(why_told_);
}

void PagodaLauncher::BeginAgain(const std::string& why) {
  spdlog::warn("launch path {} begins anew: {}", kName, why);
  const bool left = End();
  if (ended_ != std::exchange(ended_at_loss_, ended_)) losses_in_a_row_ = 0;
  if (++losses_in_a_row_ >= kMaxLosses) {
    given_up_ = absl::UnavailableError(
        fmt::format("launch path {} has given up, after {} times in which no "
                    "event ended: {}",
                    kName, losses_in_a_row_, why));
    spdlog::error("{}", given_up_.message());
    FailAll(waiting_);
    // Nothing of it is on the GPU, nor will be.
    if (left) room_.reset();
    return;
  }
  if (!left) return;  // Resume() starts it
  restarts_.fetch_add(1, std::memory_order_relaxed);
  // What fails now is seen at the next look.
  Start().IgnoreError();
}

void PagodaLauncher::FailAll(Tasks& tasks) {
  for (const Task& task : tasks) {
    FinishAndSignal(*task.event, task.sequence, EventState::kFailed,
                    EventStatus::kNotLaunched);
  }
  tasks.clear();
}

std::vector<PathCounter> PagodaLauncher::counters() const {
  return {{"tasks", tasks_.load(std::memory_order_relaxed)},
          {"empty updates", empty_updates_.load(std::memory_order_relaxed)},
          {"copies back", copies_back_.load(std::memory_order_relaxed)},
          {"MTBs", mtbs_.load(std::memory_order_relaxed)},
          {"restarts", restarts_.load(std::memory_order_relaxed)}};
}

void PagodaLauncher::AbortWaiting(const LaunchFilter& which, EventStatus why) {
  std::erase_if(waiting_, [&](const Task& task) {
    if (!which.Matches(*task.event)) return false;
    FinishAndSignal(*task.event, task.sequence, EventState::kAborted, why);
    return true;
  });
}

// Short tasks end by themselves. Else the MTBs leave: then what has begun has ended,
// and what has not waits again, and is aborted before they are back.
void PagodaLauncher::Cancel(const LaunchFilter& which, EventStatus why) {
  bool leave = false;
  {
    MutexLock lock(mutex_);
    const Nanoseconds until = NowNs() + kPatienceNs;
    while (true) {
      // In each round: a quiet gives back what had not begun.
      AbortWaiting(which, why);
      leave = std::ranges::any_of(spawned_, [&](const Task& task) {
        return which.Matches(*task.event);
      });
      if (!leave || NowNs() > until) break;
      ended_some_.WaitFor(mutex_, kLookEvery);
    }
    // They stay for nobody.
    leave |= IsForNobody();
  }
  if (leave) {
    const Gpu::PauseResidents quiet(gpu_);
    MutexLock lock(mutex_);
    AbortWaiting(which, why);
  }
  // A recovery that has some of them ends them by then.
  gpu_->Enter();
}

// --- What does not end.

// Copies the states back for those that are there for a tenth of the longest time:
// a task that waits for executors in its column has not begun.
void PagodaLauncher::NoteRunning() {
  const Nanoseconds now = NowNs();
  const Nanoseconds old = LongestKernelNs(*gpu_) / 10;
  const auto unknown = [&](const Task& task) {
    return task.seen_running_ns == 0 && now - task.spawned_ns > old;
  };
  // Each look is a copy of the table.
  if (!running_ || now - noted_ns_ < old / 10 ||
      !std::ranges::any_of(spawned_, unknown)) {
    return;
  }
  const Gpu::ContextLease use = gpu_->TryEnter();
  if (!use) return;
  std::vector<TaskState> states(size_t{mtbs_.load(std::memory_order_relaxed)} *
                                kTaskMaxRows);
  noted_ns_ = now;
  if (!link_.CopyBack(0, states).ok()) return;
  for (Task& task : spawned_) {
    // Until it has ended, its entry is no other task's.
    if (unknown(task) && states[task.entry] == TaskState::kRuns &&
        !task.event->ledger().NoteEnded(task.sequence)) {
      task.seen_running_ns = now;
    }
  }
}

PagodaLauncher::Task* PagodaLauncher::Overdue(Nanoseconds since) {
  Task* oldest = nullptr;
  for (Task& task : spawned_) {
    if (task.seen_running_ns == 0 || task.seen_running_ns >= since) continue;
    if (oldest == nullptr || task.seen_running_ns < oldest->seen_running_ns) {
      oldest = &task;
    }
  }
  return oldest;
}

std::optional<Nanoseconds> PagodaLauncher::OldestTaken(Nanoseconds since) {
  MutexLock lock(mutex_);
  NoteRunning();
  const Task* const oldest = Overdue(since);
  if (oldest == nullptr) return std::nullopt;
  return oldest->seen_running_ns;
}

bool PagodaLauncher::MarkOverdue(Nanoseconds since) {
  MutexLock lock(mutex_);
  Task* const oldest = Overdue(since);
  // If it has ended, the front-end will find it so, too.
  if (oldest == nullptr ||
      oldest->event->ledger().NoteEnded(oldest->sequence)) {
    return false;
  }
  return oldest->overdue = true;
}

void PagodaLauncher::EndOverdue(bool marked) {
  MutexLock lock(mutex_);
  for (const Task& task : spawned_) {
    if (marked && !task.overdue) continue;
    FinishAndSignal(*task.event, task.sequence, EventState::kFailed,
                    EventStatus::kTimedOut);
  }
}

// --- A lost context.

void PagodaLauncher::Abandon() {
  MutexLock lock(mutex_);
  running_ = false;
  told_ns_ = 0;
  mtbs_.store(0, std::memory_order_relaxed);
  DropSpawner();
  words_.Abandon();
  master_.Abandon();
  stream_.Abandon();
  shared_words_.Abandon();
  link_.Abandon();
}

// What waits goes on waiting.
void PagodaLauncher::TakeUnfinished(LostWork& lost) {
  MutexLock lock(mutex_);
  for (Task& task : spawned_) {
    lost.keep.push_back(task.event);
    if (task.event->ledger().NoteEnded(task.sequence)) {
      // Nobody has looked since: its device may sleep.
      task.event->memory().bell().Signal();
      continue;
    }
    lost.unfinished.push_back(
        {.kmd = task.kmd,
         .args = std::move(task.args),
         .end =
             [event = task.event, sequence = task.sequence](EventState state,
                                                            uint32_t status) {
               FinishAndSignal(*event, sequence, state,
                               static_cast<EventStatus>(status));
             },
         .run = {.device = task.event->memory().name(),
                 .owner = task.event->memory().owner(),
                 .event_id = task.event->event_id(),
                 .sequence = task.sequence.value()},
         .overdue = task.overdue,
         .timed_out = task.overdue});
  }
  spawned_.clear();
  next_look_ = spawned_.end();
  ended_some_.NotifyAll();
}

absl::Status PagodaLauncher::Settle() {
  MutexLock lock(mutex_);
  // Open() prepares it anew, or fails.
  return prepared_ ? MakeShared() : absl::OkStatus();
}

absl::Status PagodaLauncher::Resume() {
  MutexLock lock(mutex_);
  return Start();
}

}  // namespace carillon::gpud::cuda
