#include "gpu_daemon/backends/cuda/ring_path.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/gpu_rings.h"
#include "gpu_daemon/backends/cuda/host_words.h"
#include "gpu_daemon/launch/user_kernel.h"
#include "shm/clock.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

// How often the watching thread looks, while there are events in flight or have
// just been, and otherwise.
constexpr std::chrono::microseconds kLookSoon{50};
constexpr std::chrono::milliseconds kLookLater{2};
constexpr shm::Nanoseconds kStaysAwakeNs = 2'000'000;

absl::Status MakeBytes(const Driver& driver, uint64_t size,
                       DeviceBytes& bytes) {
  auto made = DeviceBytes::Make(driver, size);
  if (!made.ok()) return made.status();
  bytes = *std::move(made);
  return absl::OkStatus();
}

// What only the check of an entry gives (CopyAndCheckEntry, BuildArguments): a
// kernel's own failures have other statuses (CompletionStatus()).
bool IsRefusal(uint32_t status) {
  switch (static_cast<EventStatus>(status)) {
    case EventStatus::kStaleGeneration:
    case EventStatus::kBadSequence:
    case EventStatus::kBadBufferRef:
    case EventStatus::kBadFlags:
      return true;
    default:
      return false;
  }
}

}  // namespace

RingPath::RingPath(Gpu* gpu, std::string name, std::string thread_name,
                   Options options)
    : gpu_(gpu),
      name_(std::move(name)),
      thread_name_(std::move(thread_name)),
      options_(std::move(options)) {}

RingPath::~RingPath() = default;

absl::Status RingPath::Open() {
  if (auto status = Change([this] { return Prepare(); }); !status.ok()) {
    return status;
  }
  gpu_->Add(static_cast<Gpu::Tenant*>(this));
  gpu_->Add(static_cast<Gpu::Resident*>(this));
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void RingPath::Close() {
  Stop();
  if (watcher_.joinable()) {
    gpu_->Remove(static_cast<Gpu::Resident*>(this));
    gpu_->Remove(static_cast<Gpu::Tenant*>(this));
    watcher_.join();
  }
  const Gpu::Quiet quiet(gpu_);
  const Gpu::Use use = gpu_->Enter();
  if (!use) Abandon();
  std::lock_guard lock(mutex_);
  residents_.clear();
  FreeShared();
}

absl::Status RingPath::Change(const std::function<absl::Status()>& change) {
  const Gpu::Quiet quiet(gpu_);
  while (true) {
    const Gpu::Use use = gpu_->Enter();
    if (!use) return gpu_->health();
    std::lock_guard lock(mutex_);
    const absl::Status status = change();
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

// --- Event kernels.

absl::Status RingPath::Add(std::shared_ptr<EventKernel> event) {
  if (event->modifyable()) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' is to be modifyable: launch path {} launches before it "
        "knows the event; use another launch path",
        event->kmd().kernel->name, name_));
  }
  if (auto status = CheckCompletesItself(*event->kmd().kernel); !status.ok()) {
    return status;
  }
  if (auto status = CheckKernel(*event); !status.ok()) return status;
  const absl::Status status = Change([&]() -> absl::Status {
    if (stopped_) return absl::UnavailableError("gpud goes down");
    std::array<bool, kMostRings> taken{};
    for (const ResidentPtr& other : residents_) taken[other->index] = true;
    const auto free = std::ranges::find(taken, false);
    if (free == taken.end()) {
      return absl::ResourceExhaustedError(fmt::format(
          "launch path {} serves {} event kernels already: that is the limit, "
          "for each has a stream of its own; use another launch path",
          name_, kMostRings));
    }
    ResidentPtr resident = NewResident();
    resident->event = event;
    resident->index = static_cast<uint32_t>(free - taken.begin());
    if (auto placed = Place(*resident); !placed.ok()) return placed;
    Publish({}, shown_[resident->index]);
    event->FollowTotals(&shown_[resident->index]);
    residents_.push_back(std::move(resident));
    return absl::OkStatus();
  });
  if (!status.ok()) Remove(event);
  return status;
}

absl::Status RingPath::Place(Resident& resident) {
  const Driver& driver = gpu_->driver();
  const EventKernel& event = *resident.event;
  const uint64_t slots = event.ring().layout().entries;
  const uint64_t frame_bytes = EventFrameBytes(event.kmd().kernel->args_size);
  const std::vector<std::byte> steps = event.arguments().Pack();
  auto stream = gpu_->MakeStream(SmSet::kRest, event.priority());
  if (!stream.ok()) return stream.status();
  resident.stream = *std::move(stream);
  absl::Status status =
      MakeBytes(driver, slots * 2 * frame_bytes, resident.frames);
  status.Update(
      MakeBytes(driver, slots * 2 * sizeof(EventScratch), resident.scratch));
  status.Update(MakeBytes(driver, steps.size(), resident.arguments));
  if (!status.ok()) return status;
  status.Update(ToStatus(driver,
                         driver.cuMemcpyHtoD(resident.arguments.address(),
                                             steps.data(), steps.size()),
                         "write an event kernel's arguments"));
  if (!status.ok()) return status;
  return PlaceOwn(resident);
}

EdgeEntry RingPath::EntryOf(const Resident& resident) const {
  const EventKernel& event = *resident.event;
  const shm::RingLayout& layout = event.ring().layout();
  EdgeEntry entry{};
  entry.esq = event.memory().submission().At(layout.esq_offset);
  entry.ecq = event.ring().completion_slot(Sequence(0));
  entry.frames = resident.frames.as<std::byte>();
  entry.scratch = resident.scratch.as<EventScratch>();
  entry.arguments = resident.arguments.as<ArgumentSteps>();
  entry.entries = layout.entries;
  entry.entry_bytes = layout.entry_bytes;
  entry.parameter_offset = layout.parameter_offset;
  entry.parameter_bytes = layout.parameter_bytes;
  entry.generation = layout.generation.value();
  entry.frame_bytes =
      static_cast<uint32_t>(EventFrameBytes(event.kmd().kernel->args_size));
  entry.block[0] = event.kmd().block.x;
  entry.block[1] = event.kmd().block.y;
  entry.block[2] = event.kmd().block.z;
  return entry;
}

void RingPath::Remove(const std::shared_ptr<EventKernel>& event) {
  TakeOutAll([&](const Resident& resident) { return resident.event == event; });
}

std::vector<std::shared_ptr<EventKernel>> RingPath::RemoveDevice(
    const DeviceMemory* memory) {
  return TakeOutAll([memory](const Resident& resident) {
    return &resident.event->memory() == memory;
  });
}

std::vector<std::shared_ptr<EventKernel>> RingPath::TakeOutAll(
    const std::function<bool(const Resident&)>& match) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  const auto take = [&] {
    for (ResidentPtr& resident : residents_) {
      if (!match(*resident)) continue;
      taken.push_back(resident->event);
      resident->event->TakeBack(resident->totals);
      resident.reset();
    }
    std::erase(residents_, nullptr);
    return absl::OkStatus();
  };
  {
    // Who has nothing here disturbs nobody.
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

absl::Status RingPath::Wake() {
  return absl::UnimplementedError(fmt::format(
      "nothing but its doorbell launches an event kernel on launch path {} of "
      "the cuda back-end: ring it",
      name_));
}

// --- Starting and stopping.

absl::Status RingPath::StartAll() {
  if (running_ || paused_ || stopped_ || residents_.empty()) {
    return absl::OkStatus();
  }
  running_ = true;
  absl::Status status;
  for (ResidentPtr& resident : residents_) {
    resident->stands_still_since = 0;
    status.Update(Begin(*resident));
  }
  watch_.notify_all();
  return status;
}

bool RingPath::StopAll() {
  if (!running_) return true;
  for (ResidentPtr& resident : residents_) AskToEnd(*resident);
  for (ResidentPtr& resident : residents_) {
    if (!AwaitIdle(*resident)) {
      running_ = false;
      return false;
    }
  }
  running_ = false;
  for (ResidentPtr& resident : residents_) {
    Ended(*resident);
    Collect(*resident);
    resident->totals.launched = resident->ended - resident->totals.refused;
    Publish(resident->totals, shown_[resident->index]);
  }
  return true;
}

bool RingPath::AwaitIdle(Resident& resident) {
  const auto limit = static_cast<shm::Nanoseconds>(
      std::chrono::nanoseconds(options_.longest_kernel).count());
  const shm::Nanoseconds start = shm::NowNs();
  while (true) {
    const CUresult result = gpu_->driver().cuStreamQuery(resident.stream.get());
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) gpu_->Check(result);
    if (gpu_->Faulted()) return false;
    if (shm::NowNs() - start > limit) break;
    KeepAsking(resident);
    sched_yield();
  }
  spdlog::warn(
      "an event kernel of launch path {} did not come to rest: it is stopped, "
      "and the CUDA context with it",
      name_);
  gpu_->StopEverything();
  return false;
}

void RingPath::Pause() {
  while (const Gpu::Use use = gpu_->Enter()) {
    std::lock_guard lock(mutex_);
    paused_ = true;
    if (StopAll()) return;
  }
}

// Where it cannot start, the context is lost, and recovery tries again; or event
// kernels are not served any more, which must be known.
void RingPath::Unpause() {
  const Gpu::Use use = gpu_->Enter();
  std::lock_guard lock(mutex_);
  paused_ = false;
  if (!use) return;
  const absl::Status status = StartAll();
  if (status.ok() || gpu_->Faulted()) return;
  spdlog::error("launch path {} does not serve all of its event kernels: {}",
                name_, std::string(status.message()));
}

std::vector<PathCounter> RingPath::counters() const {
  return {{"polls", looks_.load(std::memory_order_relaxed)},
          {"sleeps", sleeps_.load(std::memory_order_relaxed)}};
}

void RingPath::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  Change([] { return absl::OkStatus(); }).IgnoreError();
  watch_.notify_all();
}

// --- Watching.

void RingPath::Watch() {
  pthread_setname_np(pthread_self(), thread_name_.c_str());
  shm::Nanoseconds last_busy = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      watch_.wait(lock, [this] { return running_ || stopped_; });
      if (stopped_) return;
    }
    const shm::Nanoseconds now = shm::NowNs();
    // A use first, then the lock: as everywhere. While there is none, recovery
    // is at work, and wakes whom it has to.
    if (const Gpu::Use use = gpu_->TryEnter()) {
      std::lock_guard lock(mutex_);
      if (running_) {
        for (ResidentPtr& resident : residents_) {
          if (LookAt(*resident, now)) last_busy = now;
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

// Its device may sleep until a completion that is there; it may have broken the
// protocol; its events may stand still.
bool RingPath::LookAt(Resident& resident, shm::Nanoseconds now) {
  EventKernel& event = *resident.event;
  const uint32_t entries = event.ring().layout().entries;
  // Both sides of the doorbell: what has ended before it was read cannot be
  // behind it by more than a ring, nor what has ended after it before it.
  const uint64_t ended_before = resident.ended;
  const uint32_t doorbell = event.ring().LoadDoorbell();
  Collect(resident);
  WakeForCompletion(event);
  const auto ahead =
      static_cast<int32_t>(doorbell - resident.RingOf(resident.ended));
  const auto behind =
      static_cast<int32_t>(resident.RingOf(ended_before) - doorbell);
  const auto limit = static_cast<int32_t>(entries);
  if (!resident.violation_seen && (ahead > limit || behind > limit)) {
    resident.violation_seen = true;
    if (options_.on_violation) {
      options_.on_violation(event.shared_memory(), DoorbellViolation(event));
    }
  }
  if (!resident.violation_seen) Tend(resident);
  Show(resident);
  const bool waits = ahead > 0 && !resident.violation_seen;
  if (!waits || resident.ended != resident.ended_before ||
      resident.stands_still_since == 0) {
    resident.ended_before = resident.ended;
    resident.stands_still_since = now;
  }
  return waits || resident.ended != ended_before;
}

// Follows the completions, which come in the order of the rings.
void RingPath::Collect(Resident& resident) {
  const EventKernel& event = *resident.event;
  EventTotals& totals = resident.totals;
  // Twice: meanwhile the completions may have been a lap ahead of the count.
  for (int i = 0; i < 2; ++i) {
    const EventTotals reported = Reported(resident);
    if (reported.done + reported.failed > resident.ended) {
      totals.done = reported.done;
      totals.failed = reported.failed;
      totals.refused = reported.refused;
      resident.ended = reported.done + reported.failed;
    }
    while (IsCompleted(event, resident.ended + 1)) {
      // Read after the sequence, by which it was published.
      const shm::EcqEntry& entry =
          *event.ring().completion_slot(Sequence(++resident.ended));
      if (LoadWord(entry.state) == EventState::kDone) {
        ++totals.done;
        continue;
      }
      ++totals.failed;
      if (IsRefusal(LoadWord(entry.status))) ++totals.refused;
    }
  }
}

// The event that runs counts as launched, those behind it do not yet.
void RingPath::Show(Resident& resident) {
  const auto ahead = static_cast<int32_t>(
      resident.event->ring().LoadDoorbell() - resident.RingOf(resident.ended));
  resident.totals.launched =
      resident.ended + (ahead > 0 ? 1 : 0) - resident.totals.refused;
  Publish(resident.totals, shown_[resident.index]);
}

bool RingPath::MarkOverdue(shm::Nanoseconds since) {
  std::lock_guard lock(mutex_);
  if (!running_) return false;
  for (ResidentPtr& resident : residents_) {
    if (resident->stands_still_since == 0 || resident->violation_seen ||
        resident->stands_still_since >= since) {
      continue;
    }
    Collect(*resident);
    const auto ahead =
        static_cast<int32_t>(resident->event->ring().LoadDoorbell() -
                             resident->RingOf(resident->ended));
    if (ahead <= 0 || resident->ended != resident->ended_before) continue;
    resident->overdue = resident->ended + 1;
    return true;
  }
  return false;
}

// --- A lost context.

void RingPath::Abandon() {
  std::lock_guard lock(mutex_);
  running_ = false;
  AbandonShared();
  for (ResidentPtr& resident : residents_) {
    resident->stream.Abandon();
    for (DeviceBytes* bytes :
         {&resident->frames, &resident->scratch, &resident->arguments}) {
      bytes->Abandon();
    }
    AbandonOwn(*resident);
  }
}

void RingPath::TakeUnfinished(LostWork& lost) {
  std::lock_guard lock(mutex_);
  for (ResidentPtr& resident : residents_) {
    Ended(*resident);
    Collect(*resident);
    resident->ended = TakeUnfinishedOf(resident->event, resident->totals,
                                       shown_[resident->index],
                                       resident->overdue, gpu_->model(), lost);
    resident->overdue = 0;
    resident->stands_still_since = 0;
  }
}

absl::Status RingPath::Settle() {
  std::lock_guard lock(mutex_);
  absl::Status status = Prepare();
  for (ResidentPtr& resident : residents_) {
    if (status.ok()) status = Place(*resident);
  }
  return status;
}

absl::Status RingPath::Resume() {
  std::lock_guard lock(mutex_);
  return StartAll();
}

}  // namespace carillon::gpud::cuda
