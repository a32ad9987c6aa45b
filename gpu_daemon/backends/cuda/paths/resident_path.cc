#include "gpu_daemon/backends/cuda/paths/resident_path.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"

namespace carillon::gpud::cuda {
namespace {

// How often the watching thread looks, while there is something to look for or
// has just been, and otherwise.
constexpr std::chrono::microseconds kLookSoon{50};
constexpr std::chrono::milliseconds kLookLater{2};
constexpr Nanoseconds kStaysAwakeNs = 2'000'000;
// Of what serves, without an event having ended in between.
constexpr uint32_t kMaxLosses = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchPath>> ResidentPath::Create(
    Gpu* gpu, Names names, ResidentOptions options, const MakeEngine& make) {
  std::unique_ptr<ResidentPath> path(
      new ResidentPath(gpu, std::move(names), std::move(options), make));
  RETURN_IF_ERROR(path->Open());
  return path;
}

ResidentPath::ResidentPath(Gpu* gpu, Names names, ResidentOptions options,
                           const MakeEngine& make)
    : gpu_(gpu),
      thread_name_(std::move(names.thread)),
      host_(gpu, std::move(names.path), std::move(options)),
      engine_(make(&host_)) {}

absl::Status ResidentPath::Open() {
  // First: a context that is lost meanwhile takes along what was made in it.
  gpu_->Add(static_cast<Gpu::ContextUser*>(this));
  const auto status = Change([this] {
    engine_->FreeShared();  // of the last try
    RETURN_IF_ERROR(engine_->Prepare());
    absl::Status tried = engine_->BeginAll();
    if (!engine_->EndAll() && tried.ok()) {
      tried = absl::UnimplementedError(fmt::format(
          "what serves launch path {} does not come to rest", host_.name()));
    }
    prepared_ = tried.ok();
    return tried;
  });
  if (!status.ok()) {
    FreeAll();  // as long as it is told of a lost context
    gpu_->Remove(static_cast<Gpu::ContextUser*>(this));
    return status;
  }
  gpu_->Add(static_cast<Gpu::PersistentWork*>(this));
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

ResidentPath::~ResidentPath() {
  Stop();
  if (!watcher_.joinable()) return;  // Open() has failed
  gpu_->Remove(static_cast<Gpu::PersistentWork*>(this));
  watcher_.join();
  FreeAll();
  gpu_->Remove(static_cast<Gpu::ContextUser*>(this));
}

void ResidentPath::FreeAll() {
  const Gpu::PauseResidents quiet(gpu_);
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) Abandon();
  std::lock_guard lock(mutex_);
  prepared_ = false;
  residents_.clear();
  engine_->FreeShared();
}

absl::Status ResidentPath::Change(const std::function<absl::Status()>& change) {
  const Gpu::PauseResidents quiet(gpu_);
  while (true) {
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    std::lock_guard lock(mutex_);
    const absl::Status status = change();
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

// --- Event kernels.

absl::Status ResidentPath::Add(std::shared_ptr<EventKernel> event) {
  if (event->modifyable() && !engine_->TakesModifyable()) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' is to be modifyable: launch path {} cannot change a "
        "launch's dimensions; use another launch path",
        event->kmd().kernel->name, host_.name()));
  }
  RETURN_IF_ERROR(engine_->CheckKernel(*event));
  return Change([&]() -> absl::Status {
    if (stopped_) return absl::UnavailableError("gpud goes down");
    if (!given_up_.ok()) return given_up_;
    ASSIGN_OR_RETURN(auto resident, engine_->NewEvent(*event));
    resident->event = event;
    resident->totals = event->gpu_ledger().FirstTotals();
    RETURN_IF_ERROR(Place(*resident));
    Publish(resident->totals, *resident->shown);
    event->gpu_ledger().Follow(resident->shown);
    residents_.push_back(std::move(resident));
    return absl::OkStatus();
  });
}

absl::Status ResidentPath::Place(ResidentEvent& resident) {
  const Driver& driver = gpu_->driver();
  const EventKernel& event = *resident.event;
  const uint64_t slots = event.ring().layout().entries;
  const uint64_t frame_bytes =
      simt::EventFrameBytes(event.kmd().kernel->args_size);
  const ArgumentSteps& steps = event.arguments().steps();
  absl::Status status =
      host_.MakeBytes(slots * 2 * frame_bytes, resident.frames);
  status.Update(host_.MakeBytes(slots * 2 * sizeof(simt::EventScratch),
                                resident.scratch));
  status.Update(host_.MakeBytes(steps.bytes, resident.arguments));
  if (!status.ok()) return status;
  status =
      ToStatus(driver, resident.arguments.Write(driver, &steps, steps.bytes),
               "write an event kernel's arguments");
  return status.ok() ? engine_->Place(resident) : status;
}

void ResidentPath::Remove(const std::shared_ptr<EventKernel>& event) {
  TakeOutAll(
      [&](const ResidentEvent& resident) { return resident.event == event; });
}

std::vector<std::shared_ptr<EventKernel>> ResidentPath::RemoveDevice(
    const DeviceMemory* memory) {
  return TakeOutAll([memory](const ResidentEvent& resident) {
    return &resident.event->memory() == memory;
  });
}

std::vector<std::shared_ptr<EventKernel>> ResidentPath::TakeOutAll(
    const std::function<bool(const ResidentEvent&)>& match) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  const auto take = [&] {
    for (ResidentEventPtr& resident : residents_) {
      if (!match(*resident)) continue;
      taken.push_back(resident->event);
      resident->event->TakeBack(resident->totals);
      resident.reset();
    }
    std::erase(residents_, nullptr);
    return absl::OkStatus();
  };
  {
    // Fast path: a device without kernels on this path must not pause the
    // others.
    std::lock_guard lock(mutex_);
    if (std::ranges::none_of(residents_,
                             [&](const auto& r) { return match(*r); })) {
      return taken;
    }
  }
  Change(take).IgnoreError();
  // No GPU any more: recovery has ended what was in flight.
  std::lock_guard lock(mutex_);
  take().IgnoreError();
  return taken;
}

void ResidentPath::Wake(const std::shared_ptr<EventKernel>& event) {
  // With the lock, no doorbell is moved (stream_wait_path.h), but where the
  // context was lost meanwhile: TakeUnfinished() rings then.
  std::lock_guard lock(mutex_);
  RingScheduled(*event);
}

// --- Starting and stopping.

absl::Status ResidentPath::StartAll() {
  if (running_ || paused_ || stopped_ || residents_.empty() ||
      !given_up_.ok()) {
    return absl::OkStatus();
  }
  running_ = true;
  engine_->ShowTracing();
  for (ResidentEventPtr& resident : residents_)
    resident->stands_still_since = 0;
  const absl::Status status = engine_->BeginAll();
  watch_.notify_all();
  return status;
}

bool ResidentPath::StopAll() {
  if (!running_) return true;
  running_ = false;
  return engine_->EndAll();
}

void ResidentPath::Pause() {
  while (const Gpu::ContextLease use = gpu_->Enter()) {
    std::lock_guard lock(mutex_);
    paused_ = true;
    if (StopAll()) return;
  }
}

// Where it cannot start, the context is lost, and recovery tries again; or event
// kernels are not served any more, which must be known.
void ResidentPath::Unpause() {
  const Gpu::ContextLease use = gpu_->Enter();
  std::lock_guard lock(mutex_);
  paused_ = false;
  if (!use) return;
  const absl::Status status = StartAll();
  if (status.ok() || gpu_->Faulted()) return;
  spdlog::error("launch path {} does not serve all of its event kernels: {}",
                host_.name(), status.message());
}

void ResidentPath::SetTracing(bool on) {
  std::lock_guard lock(mutex_);
  host_.tracing_ = on;
  host_.traced_ever_ |= on;
  gpu_->SetTracing(on);
  engine_->ShowTracing();
}

std::vector<PathCounter> ResidentPath::counters() const {
  auto own = engine_->counters();
  if (!own.empty()) return own;
  return {{"polls", looks_.load(std::memory_order_relaxed)},
          {"sleeps", sleeps_.load(std::memory_order_relaxed)}};
}

void ResidentPath::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  Change([] { return absl::OkStatus(); }).IgnoreError();
  watch_.notify_all();
}

// --- Watching.

void ResidentPath::Watch() {
  pthread_setname_np(pthread_self(), thread_name_.c_str());
  Nanoseconds last_busy = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      watch_.wait(lock, [this] {
        return running_ || stopped_ || (!given_up_.ok() && !residents_.empty());
      });
      if (stopped_) return;
    }
    const Nanoseconds now = NowNs();
    // A use first, then the lock: as everywhere. While there is none, recovery
    // is at work, and wakes whom it has to.
    if (const Gpu::ContextLease use = gpu_->TryEnter()) {
      std::lock_guard lock(mutex_);
      if (running_) {
        if (host_.tracing_) engine_->ShowTracing();
        if (const std::string why = engine_->WhyLost(); !why.empty()) {
          BeginAgain(why);
        }
      }
      for (ResidentEventPtr& resident : residents_) {
        if (running_ ? engine_->LookAt(*resident, now) : FailRung(*resident)) {
          last_busy = now;
        }
        if (running_) LookWhetherSeen(*resident, now);
      }
    }
    looks_.fetch_add(1, std::memory_order_relaxed);
    const bool soon = now - last_busy < kStaysAwakeNs;
    if (!soon) sleeps_.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    watch_.wait_for(lock, soon ? std::chrono::nanoseconds(kLookSoon)
                               : std::chrono::nanoseconds(kLookLater));
  }
}

void ResidentPath::LookWhetherSeen(ResidentEvent& resident, Nanoseconds now) {
  if (resident.violation_seen || resident.stands_still_since == 0 ||
      now - resident.stands_still_since < host_.longest_kernel_ns() ||
      !engine_->IsUnseen(resident)) {
    return;
  }
  host_.NoteViolation(resident, UnseenViolation(resident));
}

uint64_t ResidentPath::Ended(bool exactly) const {
  uint64_t ended = 0;
  for (const ResidentEventPtr& resident : residents_) {
    ended += exactly ? resident->totals.done + resident->totals.failed
                     : LoadWord(resident->shown->done) +
                           LoadWord(resident->shown->failed);
  }
  return ended;
}

void ResidentPath::BeginAgain(const std::string& why) {
  spdlog::warn("launch path {} begins anew: {}", host_.name(), why);
  // False: the context is lost. That counts as well, or what finds no room would
  // cost one context after another.
  const bool stopped = StopAll();
  const uint64_t ended = Ended(stopped);
  if (ended != std::exchange(ended_at_loss_, ended)) losses_in_a_row_ = 0;
  if (++losses_in_a_row_ >= kMaxLosses) {
    given_up_ = absl::UnavailableError(
        fmt::format("launch path {} has given up, after {} times in which no "
                    "event ended: {}",
                    host_.name(), losses_in_a_row_, why));
    host_.SetNotice(fmt::format("has given up: {}", why));
    spdlog::error("{}", given_up_.message());
    return;
  }
  if (!stopped) return;  // Resume() starts it
  host_.restarts_.fetch_add(1, std::memory_order_relaxed);
  // What fails now is seen at the next look.
  StartAll().IgnoreError();
}

bool ResidentPath::FailRung(ResidentEvent& resident) {
  if (given_up_.ok()) return false;
  const EventKernel& event = *resident.event;
  const uint64_t ended = resident.totals.done + resident.totals.failed;
  const uint64_t rung = event.gpu_ledger().RungOf(ended);
  if (rung == ended || resident.violation_seen) return false;
  if (rung < ended || rung - ended > event.ring().layout().entries) {
    host_.NoteViolation(resident, DoorbellViolation(event, ended));
    return false;
  }
  LostWork rest;
  engine_->ContinueAfter(
      resident, TakeUnfinishedOf(resident.event, resident.totals,
                                 *resident.shown, 0, gpu_->model(), rest));
  for (Unfinished& launch : rest.unfinished) {
    const auto end = launch.ends_as.value_or(Unfinished::End{
        .state = shm::EventState::kFailed,
        .status = static_cast<uint32_t>(shm::EventStatus::kNotLaunched)});
    launch.end(end.state, end.status);
  }
  return true;
}

ResidentEvent* ResidentPath::FindOverdue(Nanoseconds since, TakenEvent& taken) {
  if (!running_) return nullptr;
  ResidentEvent* found = nullptr;
  for (ResidentEventPtr& resident : residents_) {
    if (resident->violation_seen) continue;
    const auto overdue = engine_->Overdue(*resident, since);
    if (!overdue || (found != nullptr && taken.since <= overdue->since)) {
      continue;
    }
    found = resident.get();
    taken = *overdue;
  }
  return found;
}

std::optional<Nanoseconds> ResidentPath::OldestTaken(Nanoseconds since) {
  std::lock_guard lock(mutex_);
  TakenEvent taken;
  if (FindOverdue(since, taken) == nullptr) return std::nullopt;
  return taken.since;
}

bool ResidentPath::MarkOverdue(Nanoseconds since) {
  std::lock_guard lock(mutex_);
  TakenEvent taken;
  ResidentEvent* const overdue = FindOverdue(since, taken);
  if (overdue == nullptr) return false;
  overdue->is_overdue = true;
  overdue->overdue = taken.sequence;
  return true;
}

void ResidentPath::EndOverdue(bool marked) {
  std::lock_guard lock(mutex_);
  for (ResidentEventPtr& resident : residents_) {
    engine_->CountEnded(*resident);
    if (!marked) {
      const auto taken = engine_->Overdue(*resident, ResidentEngine::kAnyTime);
      resident->is_overdue = taken.has_value();
      resident->overdue = taken ? taken->sequence : 0;
    }
    if (!resident->is_overdue) continue;
    const EventKernel& event = *resident->event;
    const uint32_t entries = event.ring().layout().entries;
    const uint64_t rung = event.gpu_ledger().LastRung();
    for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
      if (IsCompleted(event, s) ||
          (resident->overdue != 0 && resident->overdue != s)) {
        continue;
      }
      event.ring().Complete(shm::Sequence(s), shm::EventState::kFailed,
                            static_cast<uint32_t>(shm::EventStatus::kTimedOut));
    }
    event.memory().bell().Signal();
  }
}

// --- A lost context.

void ResidentPath::Abandon() {
  std::lock_guard lock(mutex_);
  running_ = false;
  engine_->AbandonShared();
  for (ResidentEventPtr& resident : residents_) {
    for (DeviceBytes* bytes :
         {&resident->frames, &resident->scratch, &resident->arguments}) {
      bytes->Abandon();
    }
    engine_->Abandon(*resident);
  }
}

void ResidentPath::TakeUnfinished(LostWork& lost) {
  std::lock_guard lock(mutex_);
  const uint64_t ended = Ended(false);
  for (ResidentEventPtr& resident : residents_) {
    engine_->CountEnded(*resident);
    // While the doorbell was moved, Wake() could not.
    RingScheduled(*resident->event);
    const size_t before = lost.unfinished.size();
    const uint64_t rung =
        TakeUnfinishedOf(resident->event, resident->totals, *resident->shown,
                         resident->overdue, gpu_->model(), lost);
    if (resident->is_overdue && resident->overdue == 0) {
      for (size_t i = before; i < lost.unfinished.size(); ++i) {
        lost.unfinished[i].overdue = lost.unfinished[i].run.is_event();
      }
    }
    resident->is_overdue = false;
    resident->overdue = 0;
    resident->stands_still_since = 0;
    engine_->ContinueAfter(*resident, rung);
  }
  // What recovery ends was not ended by what serves.
  ended_at_loss_ += Ended(true) - ended;
}

absl::Status ResidentPath::Settle() {
  std::lock_guard lock(mutex_);
  if (!prepared_) return absl::OkStatus();  // Open() prepares it anew, or fails
  absl::Status status = engine_->Prepare();
  for (ResidentEventPtr& resident : residents_) {
    if (status.ok()) status = Place(*resident);
  }
  return status;
}

absl::Status ResidentPath::Resume() {
  std::lock_guard lock(mutex_);
  return StartAll();
}

}  // namespace carillon::gpud::cuda
