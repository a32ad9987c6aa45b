#include "gpu_daemon/backends/cuda/paths/resident_path.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/event/user_kernel.h"

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

ResidentPath::ResidentPath(Gpu* gpu, std::string name, std::string thread_name,
                           Options options)
    : gpu_(gpu),
      name_(std::move(name)),
      thread_name_(std::move(thread_name)),
      options_(std::move(options)),
      tracing_(options_.tracing),
      traced_ever_(options_.tracing) {}

ResidentPath::~ResidentPath() = default;

absl::Status ResidentPath::Open() {
  const auto status = Change([this] {
    absl::Status prepared = Prepare();
    return prepared.ok() ? TryOut() : prepared;
  });
  if (!status.ok()) return status;
  gpu_->Add(static_cast<Gpu::ContextUser*>(this));
  gpu_->Add(static_cast<Gpu::PersistentWork*>(this));
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void ResidentPath::Close() {
  Stop();
  if (watcher_.joinable()) {
    gpu_->Remove(static_cast<Gpu::PersistentWork*>(this));
    gpu_->Remove(static_cast<Gpu::ContextUser*>(this));
    watcher_.join();
  }
  const Gpu::PauseResidents quiet(gpu_);
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) Abandon();
  std::lock_guard lock(mutex_);
  residents_.clear();
  FreeShared();
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
  if (event->modifyable()) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' is to be modifyable: launch path {} cannot change a "
        "launch's dimensions; use another launch path",
        event->kmd().kernel->name, name_));
  }
  RETURN_IF_ERROR(CheckCompletesItself(*event->kmd().kernel));
  RETURN_IF_ERROR(CheckKernel(*event));
  return Change([&]() -> absl::Status {
    if (stopped_) return absl::UnavailableError("gpud goes down");
    if (!given_up_.ok()) return given_up_;
    ASSIGN_OR_RETURN(auto resident, NewResidentEvent(*event));
    resident->event = event;
    resident->totals = event->gpu_ledger().FirstTotals();
    RETURN_IF_ERROR(Place(*resident));
    simt::EventTotals& shown = Shown(resident->index);
    Publish(resident->totals, shown);
    event->gpu_ledger().Follow(&shown);
    residents_.push_back(std::move(resident));
    return absl::OkStatus();
  });
}

absl::Status ResidentPath::MakeBytes(uint64_t size, DeviceBytes& bytes) const {
  ASSIGN_OR_RETURN(bytes, DeviceBytes::Make(gpu_->driver(), size));
  return absl::OkStatus();
}

absl::Status ResidentPath::Place(ResidentEvent& resident) {
  const Driver& driver = gpu_->driver();
  const EventKernel& event = *resident.event;
  const uint64_t slots = event.ring().layout().entries;
  const uint64_t frame_bytes =
      simt::EventFrameBytes(event.kmd().kernel->args_size);
  const ArgumentSteps& steps = event.arguments().steps();
  absl::Status status = MakeBytes(slots * 2 * frame_bytes, resident.frames);
  status.Update(
      MakeBytes(slots * 2 * sizeof(simt::EventScratch), resident.scratch));
  status.Update(MakeBytes(steps.bytes, resident.arguments));
  if (!status.ok()) return status;
  status = ToStatus(
      driver,
      driver.cuMemcpyHtoD(resident.arguments.address(), &steps, steps.bytes),
      "write an event kernel's arguments");
  return status.ok() ? PlaceOwn(resident) : status;
}

EdgeEntry ResidentPath::EntryOf(const ResidentEvent& resident) const {
  const EventKernel& event = *resident.event;
  const shm::RingLayout& layout = event.ring().layout();
  EdgeEntry entry{};
  entry.esq = event.memory().submission().At(layout.esq_offset);
  entry.ecq = event.ring().completion_slot(shm::Sequence(0));
  entry.lives = &event.ring().life(shm::Sequence(0));
  entry.frames = resident.frames.as<std::byte>();
  entry.scratch = resident.scratch.as<simt::EventScratch>();
  entry.arguments = resident.arguments.as<ArgumentSteps>();
  entry.entries = layout.entries;
  entry.entry_bytes = layout.entry_bytes;
  entry.parameter_offset = layout.parameter_offset;
  entry.parameter_bytes = layout.parameter_bytes;
  entry.generation = layout.generation.value();
  entry.frame_bytes = static_cast<uint32_t>(
      simt::EventFrameBytes(event.kmd().kernel->args_size));
  entry.block[0] = event.kmd().block.x;
  entry.block[1] = event.kmd().block.y;
  entry.block[2] = event.kmd().block.z;
  return entry;
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

absl::Status ResidentPath::Wake() {
  return absl::UnimplementedError(fmt::format(
      "nothing but its doorbell launches an event kernel on launch path {} of "
      "the cuda back-end: ring it",
      name_));
}

// --- Starting and stopping.

absl::Status ResidentPath::StartAll() {
  if (running_ || paused_ || stopped_ || residents_.empty() ||
      !given_up_.ok()) {
    return absl::OkStatus();
  }
  running_ = true;
  ShowTracing();
  for (ResidentEventPtr& resident : residents_)
    resident->stands_still_since = 0;
  const absl::Status status = BeginAll();
  watch_.notify_all();
  return status;
}

bool ResidentPath::StopAll() {
  if (!running_) return true;
  running_ = false;
  return EndAll();
}

bool ResidentPath::Await(const std::function<bool()>& reached) {
  const auto limit = static_cast<Nanoseconds>(
      std::chrono::nanoseconds(options_.longest_kernel).count());
  const Nanoseconds start = NowNs();
  while (!reached()) {
    if (gpu_->Faulted()) return false;
    if (NowNs() - start > limit) {
      spdlog::warn(
          "an event kernel of launch path {} did not come to rest: it is "
          "stopped, and the CUDA context with it",
          name_);
      Trap();
      gpu_->StopEverything();
      return false;
    }
    sched_yield();
  }
  return true;
}

bool ResidentPath::IsIdle(CUstream stream) {
  const CUresult result = gpu_->driver().cuStreamQuery(stream);
  if (result != CUDA_ERROR_NOT_READY) gpu_->Check(result);
  return result == CUDA_SUCCESS;
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
                name_, status.message());
}

void ResidentPath::SetTracing(bool on) {
  std::lock_guard lock(mutex_);
  tracing_ = on;
  traced_ever_ |= on;
  gpu_->SetTracing(on);
  ShowTracing();
}

std::vector<PathCounter> ResidentPath::counters() const {
  return {{"polls", looks_.load(std::memory_order_relaxed)},
          {"sleeps", sleeps_.load(std::memory_order_relaxed)}};
}

std::string ResidentPath::notice() const {
  std::lock_guard lock(notice_mutex_);
  return notice_;
}

void ResidentPath::SetNotice(std::string notice) {
  std::lock_guard lock(notice_mutex_);
  notice_ = std::move(notice);
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
        if (tracing_) ShowTracing();
        LookAtShared();
      }
      for (ResidentEventPtr& resident : residents_) {
        if (running_ ? LookAt(*resident, now) : FailRung(*resident)) {
          last_busy = now;
        }
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

void ResidentPath::NoteProgress(ResidentEvent& resident, uint64_t ended,
                                bool waits, Nanoseconds now) {
  if (!waits || ended != resident.ended_before ||
      resident.stands_still_since == 0) {
    resident.ended_before = ended;
    resident.stands_still_since = now;
  }
}

void ResidentPath::NoteViolation(ResidentEvent& resident) {
  resident.violation_seen = true;
  if (!options_.on_violation) return;
  options_.on_violation(resident.event->shared_memory(),
                        DoorbellViolation(*resident.event));
}

void ResidentPath::BeginAgain(const std::string& why) {
  spdlog::warn("launch path {} begins anew: {}", name_, why);
  if (!StopAll()) return;
  uint64_t ended = 0;
  for (const ResidentEventPtr& resident : residents_) {
    ended += resident->totals.done + resident->totals.failed;
  }
  if (ended != std::exchange(ended_at_loss_, ended)) losses_in_a_row_ = 0;
  if (++losses_in_a_row_ >= kMaxLosses) {
    given_up_ = absl::UnavailableError(
        fmt::format("launch path {} has given up, after {} times in which no "
                    "event ended: {}",
                    name_, losses_in_a_row_, why));
    SetNotice(fmt::format("has given up: {}", why));
    spdlog::error("{}", given_up_.message());
    return;
  }
  restarts_.fetch_add(1, std::memory_order_relaxed);
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
    NoteViolation(resident);
    return false;
  }
  LostWork rest;
  ContinueAfter(resident, TakeUnfinishedOf(resident.event, resident.totals,
                                           Shown(resident.index), 0,
                                           gpu_->model(), rest));
  for (Unfinished& launch : rest.unfinished) {
    launch.end(shm::EventState::kFailed,
               static_cast<uint32_t>(shm::EventStatus::kNotLaunched));
  }
  return true;
}

bool ResidentPath::MarkOverdue(Nanoseconds since) {
  std::lock_guard lock(mutex_);
  if (!running_) return false;
  for (ResidentEventPtr& resident : residents_) {
    if (resident->stands_still_since == 0 || resident->violation_seen ||
        resident->stands_still_since >= since) {
      continue;
    }
    const uint64_t waiting = OldestWaiting(*resident);
    if (waiting == 0) continue;
    resident->overdue = waiting;
    return true;
  }
  return false;
}

// --- A lost context.

void ResidentPath::Abandon() {
  std::lock_guard lock(mutex_);
  running_ = false;
  AbandonShared();
  for (ResidentEventPtr& resident : residents_) {
    for (DeviceBytes* bytes :
         {&resident->frames, &resident->scratch, &resident->arguments}) {
      bytes->Abandon();
    }
    AbandonOwn(*resident);
  }
}

void ResidentPath::TakeUnfinished(LostWork& lost) {
  std::lock_guard lock(mutex_);
  for (ResidentEventPtr& resident : residents_) {
    CountEnded(*resident);
    const uint64_t rung = TakeUnfinishedOf(
        resident->event, resident->totals, Shown(resident->index),
        resident->overdue, gpu_->model(), lost);
    resident->overdue = 0;
    resident->stands_still_since = 0;
    ContinueAfter(*resident, rung);
  }
}

absl::Status ResidentPath::Settle() {
  std::lock_guard lock(mutex_);
  absl::Status status = Prepare();
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
