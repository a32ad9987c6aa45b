#include "gpu_daemon/backends/cuda/driver/gpu.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/module_image.h"
#include "gpu_daemon/backends/cuda/driver/step_limit.h"
#include "kernels/simt/completion_status.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

// A launch that alone makes this many contexts faulty in a row is given up with
// all the others: the GPU is broken, or what gpud does with it.
constexpr int kMaxLossesInARow = 64;
// How long a stopped kernel may take to end.
constexpr Nanoseconds kStopLimitNs = 2'000'000'000;

uint32_t Status(EventStatus status) { return static_cast<uint32_t>(status); }

// How long the watching thread measures the GPU's clock, at most: it never waits
// for room on a full GPU, and what takes longer is no measurement.
constexpr Nanoseconds kMeasureLimitNs = 1'000'000;

// A context's fault that is no kernel's.
bool IsHardwareFault(CUresult result) {
  return result == CUDA_ERROR_ECC_UNCORRECTABLE ||
         result == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         result == CUDA_ERROR_EXTERNAL_DEVICE;
}

// "event 3 ('busy') of device 'nic0', sequence 17".
std::string Describe(const Unfinished& launch) {
  const std::string_view kernel = launch.kmd.kernel->name;
  if (launch.run.is_event()) {
    return fmt::format("event {} ('{}') of device '{}', sequence {}",
                       launch.run.event_id, kernel, launch.run.device,
                       launch.run.sequence);
  }
  return fmt::format("background kernel '{}'{}", kernel,
                     launch.run.device.empty()
                         ? ""
                         : fmt::format(" of device '{}'", launch.run.device));
}

void EndWhatDoesNotRunAgain(LostWork& lost) {
  for (Unfinished& launch : lost.unfinished) {
    if (launch.end == nullptr || !launch.ends_as) continue;
    launch.end(launch.ends_as->state, launch.ends_as->status);
    lost.keep.push_back(std::make_shared<decltype(launch.end)>(
        std::exchange(launch.end, nullptr)));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::Open(Driver driver,
                                               const Options& options) {
  std::unique_ptr<Gpu> gpu(new Gpu(driver, options));
  RETURN_IF_ERROR(gpu->context_.Describe());
  gpu->room_.emplace(gpu->model());
  RETURN_IF_ERROR(gpu->MakeContext());
  gpu->watcher_ = std::thread([gpu = gpu.get()] { gpu->Watch(); });
  return gpu;
}

Gpu::~Gpu() {
  gate_.Close();
  if (watcher_.joinable()) watcher_.join();
  AwaitRetired();
  if (!context_.exists()) return;
  context_.MakeCurrent();
  clock_ = {};
  watch_stream_.Reset();
  stop_stream_.Reset();
  modules_.Reset();
  context_.Release();
}

absl::Status Gpu::MakeContext() {
  RETURN_IF_ERROR(context_.Make());
  ASSIGN_OR_RETURN(const uint32_t frame, modules_.Load());
  for (Stream* stream : {&watch_stream_, &stop_stream_}) {
    ASSIGN_OR_RETURN(*stream, context_.MakeOwnStream());
  }
  RETURN_IF_ERROR(TakeStack(frame));
  ASSIGN_OR_RETURN(clock_, PinnedBytes::Make(driver_, sizeof(uint64_t)));
  MeasureClock(kStopLimitNs);  // nothing else runs yet
  return absl::OkStatus();
}

absl::Status Gpu::TakeStack(uint32_t frame_bytes) {
  ASSIGN_OR_RETURN(const auto function, Function("carillon_take_stack"));
  return context_.TakeStack(frame_bytes, function, watch_stream_.get());
}

void Gpu::LoseContext() {
  losses_.fetch_add(1, std::memory_order_relaxed);
  for (ContextUser* tenant : tenants_) tenant->Abandon();
  clock_.Abandon();
  watch_stream_.Abandon();
  stop_stream_.Abandon();
  modules_.Abandon();
  context_.Lose();
}

bool Gpu::Check(CUresult result) {
  if (result == CUDA_SUCCESS) return true;
  if (!IsContextFault(result)) return false;
  const bool hardware = IsHardwareFault(result);
  if (hardware) hardware_.store(true, std::memory_order_relaxed);
  if (gate_.Lose()) {
    spdlog::warn("{}: {}", hardware ? "the GPU failed" : "a kernel faulted",
                 ErrorText(driver_, result));
  }
  return false;
}

bool Gpu::Faulted() {
  const CUresult result = driver_.cuStreamQuery(watch_stream_.get());
  if (result != CUDA_ERROR_NOT_READY) Check(result);
  return !gate_.up();
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> Gpu::LoadKernels(
    const ModuleSource& source) {
  RETURN_IF_ERROR(CheckModuleImage(source.image, source.file));
  while (true) {
    const ContextLease use = Enter();
    if (!use) return health();
    auto user = modules_.LoadUsers(source);
    absl::Status status = user.status();
    if (status.ok()) {
      status = TakeStack((*user)->frame_bytes);
      if (status.ok()) return modules_.Keep(*std::move(user));
      status = absl::Status(
          status.code(), fmt::format("{}: {}", source.file, status.message()));
    }
    if (!Faulted()) return status;
  }
}

// Reserved SMs are reckoned as the first ones. Policy reservation's parts count as
// one: what stays is on either of them.
absl::StatusOr<std::unique_ptr<ResidentRoom::Held>> Gpu::TakeRoom(
    std::string_view path, const BlockCost& cost, uint32_t least, uint32_t most,
    SmSet sms) {
  const uint32_t reserved = reserved_sms();
  const SmRange range = sms == SmSet::kEdge && reserved != 0
                            ? SmRange{.first = 0, .end = reserved}
                            : SmRange{.first = reserved, .end = model().sms};
  return room_->Take(path, cost, least, most, range);
}

absl::Status Gpu::ReleaseBarrier() {
  const ContextLease use = Enter();
  return use ? modules_.Release() : health();
}

Gpu::PauseResidents::PauseResidents(Gpu* gpu)
    : gpu_(gpu), lock_(gpu->quiet_mutex_) {
  if (gpu_->quiets_++ != 0) return;
  for (PersistentWork* resident : gpu_->residents_) resident->Pause();
}

Gpu::PauseResidents::~PauseResidents() {
  if (--gpu_->quiets_ != 0) return;
  for (PersistentWork* resident : gpu_->residents_) resident->Unpause();
}

void Gpu::Add(PersistentWork* resident) {
  std::lock_guard lock(quiet_mutex_);
  residents_.push_back(resident);
}

void Gpu::Remove(PersistentWork* resident) {
  std::lock_guard lock(quiet_mutex_);
  std::erase(residents_, resident);
}

void Gpu::AwaitRetired() {
  std::lock_guard lock(retirers_mutex_);
  for (std::thread& retirer : retirers_) retirer.join();
  retirers_.clear();
}

void Gpu::Add(ContextUser* tenant) {
  std::lock_guard lock(tenants_mutex_);
  tenants_.push_back(tenant);
}

void Gpu::Remove(ContextUser* tenant) {
  std::lock_guard lock(tenants_mutex_);
  std::erase(tenants_, tenant);
}

// A look may need a lock whose holder is in the driver, and the driver may wait
// for a kernel that does not end: then others than this thread stop the kernel,
// and when that does not help, end the process.
void Gpu::Watch() {
  pthread_setname_np(pthread_self(), "gpud-gpu-watch");
  NoteStep();
  // Who finds a kernel overdue while it holds such a lock has time to stop it.
  const auto stop_after = options_.longest_kernel +
                          std::chrono::milliseconds(kStopLimitNs / 1'000'000);
  const auto end_after = stop_after + options_.longest_step;
  const StepLimit stop(last_step_ns_, stop_after, [this, stop_after] {
    const ContextLease use = TryEnter();
    if (!use) return;  // after a loss, which has a limit of its own
    spdlog::warn(
        "the thread that looks for kernels that do not end has stood still for "
        "{} ms, as the driver does not return to whom it waits for: all that "
        "runs is stopped, and the CUDA context with it",
        stop_after.count());
    // Who holds the lock comes back then, where the GPU has room for a trap.
    if (!options_.recovers) {
      // Before the trap: who sees what it does tells it from a fault.
      if (gate_.up()) stopped_.store(true, std::memory_order_relaxed);
      StopRunningKernels();
    }
    StopEverything();
  });
  const StepLimit end(last_step_ns_, end_after, [this, end_after] {
    SayUnusable({.why = fmt::format("the thread that looks for kernels that do "
                                    "not end has stood still "
                                    "for {} ms, as the driver does not return",
                                    end_after.count()),
                 .mark = {.stood_still = end_after}});
  });
  while (gate_.AwaitLoss(options_.look_every)) {
    LookAtHealth();
    if (gate_.lost()) options_.recovers ? Recover() : End();
    NoteStep();
  }
}

void Gpu::LookAtHealth() {
  {
    const ContextLease use = TryEnter();
    if (!use) return;
    const CUresult result = driver_.cuStreamQuery(watch_stream_.get());
    if (result != CUDA_ERROR_NOT_READY && !Check(result)) return;
    if (result == CUDA_SUCCESS && tracing_.load(std::memory_order_relaxed)) {
      MeasureClock(kMeasureLimitNs);
    }
  }
  const Nanoseconds now = NowNs();
  const Nanoseconds since =
      now - static_cast<Nanoseconds>(
                std::chrono::nanoseconds(options_.longest_kernel).count());
  std::lock_guard lock(tenants_mutex_);
  ContextUser* owner = nullptr;
  Nanoseconds oldest = now;
  for (ContextUser* tenant : tenants_) {
    const auto taken = tenant->OldestTaken(oldest);
    if (!taken) continue;
    owner = tenant;
    oldest = *taken;
  }
  // What came later may have waited for the room that it took.
  if (oldest_ != 0 && oldest_ < oldest) oldest_since_ = now;
  if (oldest_ == 0) oldest_since_ = std::max(oldest, looked_);
  if (oldest < oldest_) oldest_since_ = oldest;
  looked_ = now;
  oldest_ = owner == nullptr ? 0 : oldest;
  if (owner == nullptr || oldest_since_ >= since) return;
  if (!owner->MarkOverdue(oldest + 1)) return;
  marked_ = true;
  spdlog::warn(
      "a kernel ran for more than {} ms: it is stopped, and {} with it",
      options_.longest_kernel.count(),
      options_.recovers ? "the CUDA context" : "gpud");
  if (const ContextLease use = TryEnter()) StopEverything();
}

// The GPU's time lies between two looks at ours: the closest pair of some counts.
// A kernel that has found no room in time is left to the stream; until it has
// ended there, nothing is measured.
void Gpu::MeasureClock(Nanoseconds limit) {
  const auto function = Function("carillon_clock");
  if (!function.ok()) return;
  auto* word = clock_.as<uint64_t>();
  void* parameters[] = {&word};
  Nanoseconds best = ~Nanoseconds{0};
  const Nanoseconds start = NowNs();
  for (int i = 0; i < 5; ++i) {
    const Nanoseconds before = NowNs();
    CUresult result =
        driver_.cuLaunchKernel(*function, 1, 1, 1, 1, 1, 1, 0,
                               watch_stream_.get(), parameters, nullptr);
    if (result != CUDA_SUCCESS) return;
    while ((result = driver_.cuStreamQuery(watch_stream_.get())) ==
           CUDA_ERROR_NOT_READY) {
      if (NowNs() - start > limit) return;
      sched_yield();
    }
    if (result != CUDA_SUCCESS) return;
    const Nanoseconds took = NowNs() - before;
    if (took >= best) continue;
    best = took;
    clock_offset_ns_.store(static_cast<int64_t>(before + took / 2 - *word),
                           std::memory_order_relaxed);
  }
}

void Gpu::AddTrap(uint32_t* word) {
  std::lock_guard lock(traps_mutex_);
  traps_.push_back(word);
}

void Gpu::RemoveTrap(uint32_t* word) {
  std::lock_guard lock(traps_mutex_);
  std::erase(traps_, word);
}

// Nothing else stops a kernel: another one's trap takes the context, and with it
// all that runs there. It does not get onto a GPU that is full; a resident one is
// there.
bool Gpu::StopRunningKernels() {
  {
    std::lock_guard lock(traps_mutex_);
    // Reader: the resident kernel. Release: as all words that the host writes.
    for (uint32_t* word : traps_) {
      std::atomic_ref(*word).store(1, std::memory_order_release);
    }
  }
  const auto trap = Function("carillon_trap");
  if (!trap.ok() ||
      driver_.cuLaunchKernel(*trap, 1, 1, 1, 1, 1, 1, 0, stop_stream_.get(),
                             nullptr, nullptr) != CUDA_SUCCESS) {
    return Faulted();
  }
  const Nanoseconds start = NowNs();
  while (driver_.cuStreamQuery(stop_stream_.get()) == CUDA_ERROR_NOT_READY) {
    if (NowNs() - start > kStopLimitNs) return false;
    sched_yield();
  }
  return true;
}

void Gpu::StopEverything() {
  // Where the process ends all of it, that is certain, and sooner than a trap.
  if (options_.recovers && !StopRunningKernels()) {
    unstoppable_.store(true, std::memory_order_relaxed);
  }
  if (gate_.up()) stopped_.store(true, std::memory_order_relaxed);
  gate_.Lose();
}

// Nobody waits for those with a use: they may be in the driver, and not come back.
void Gpu::End() {
  NoteStep();
  const StepLimit limit(last_step_ns_, options_.longest_step, [this] {
    SayUnusable(
        {.why = fmt::format(
             "a kernel has faulted or does not end, and the driver does not "
             "return within {} ms: which one is not known",
             options_.longest_step.count()),
         .mark = {.stood_still = options_.longest_step}});
  });
  std::lock_guard lock(tenants_mutex_);
  LostWork lost;
  for (ContextUser* tenant : tenants_) tenant->TakeUnfinished(lost);
  const Loss loss = EndCulprits(lost.unfinished);
  EndWhatDoesNotRunAgain(lost);
  SayUnusable(loss);
  for (Unfinished& launch : lost.unfinished) {
    if (launch.end == nullptr) continue;
    launch.end(EventState::kAborted, Status(EventStatus::kShutdown));
  }
  losses_.fetch_add(1, std::memory_order_relaxed);
  gate_.Open(absl::AbortedError(loss.why));
  // Not here: whoever goes with it may wait for this thread.
  std::lock_guard retirers_lock(retirers_mutex_);
  retirers_.emplace_back([lost = std::move(lost)] {});
}

Gpu::Loss Gpu::EndCulprits(std::vector<Unfinished>& unfinished) {
  std::vector<RunId> ran;
  std::vector<std::string> culprits;
  const auto end = [&](Unfinished& launch, EventStatus status) {
    culprits.push_back(Describe(launch));
    launch.end(EventState::kFailed, Status(status));
    launch.end = nullptr;
  };
  const bool overdue = std::exchange(marked_, false);
  for (Unfinished& launch : unfinished) {
    if (launch.overdue) {
      end(launch, EventStatus::kTimedOut);
    } else if (!launch.waits) {
      ran.push_back(launch.run);
    }
  }
  if (overdue) {
    return {.why = fmt::format("a kernel ran for more than {} ms: {}",
                               options_.longest_kernel.count(),
                               culprits.empty() ? "it has ended meanwhile"
                                                : JoinWords(culprits)),
            .mark = {.named = !culprits.empty()}};
  }
  if (hardware_.load(std::memory_order_relaxed)) {
    return {.why =
                "its hardware has failed, as the line before says; no event "
                "is to blame"};
  }
  const bool stopped = stopped_.load(std::memory_order_relaxed);
  const std::vector<RunId> blamed = faults_.Blame(ran);
  for (Unfinished& launch : unfinished) {
    if (launch.end == nullptr || launch.waits ||
        std::ranges::find(blamed, launch.run) == blamed.end()) {
      continue;
    }
    end(launch, stopped ? EventStatus::kTimedOut : EventStatus::kKernelFault);
  }
  if (!culprits.empty()) {
    // Another one may have faulted, too.
    std::erase_if(ran, [&](const RunId& run) {
      return std::ranges::find(blamed, run) != blamed.end();
    });
    return {.why = fmt::format("the GPU is lost by {}", JoinWords(culprits)),
            .suspects = std::move(ran),
            .mark = {.named = true}};
  }
  if (std::ranges::none_of(ran, &RunId::is_event)) {
    return {.why = fmt::format(
                "the GPU is lost, and what did that is not known: it had {}",
                ran.empty() ? "no kernel"
                            : FormatPlural(ran.size(), "kernel") +
                                  " of no known event")};
  }
  return {.why = fmt::format("the GPU is lost, by one of the {} launches that "
                             "it had: which one, their next run shows",
                             ran.size()),
          .suspects = std::move(ran)};
}

void Gpu::Recover() {
  NoteStep();
  // From here on: who has a use may be in the driver, and not come back.
  const StepLimit limit(last_step_ns_, options_.longest_step, [this] {
    SayUnusable(
        {.why = fmt::format("its recovery has stood still for {} ms, as "
                            "the driver does not return",
                            options_.longest_step.count()),
         .mark = {.stood_still = options_.longest_step}});
  });
  auto barred = gate_.Bar();
  std::lock_guard lock(tenants_mutex_);
  LostWork lost;
  const absl::Status status = TryToRecover(lost);
  if (!status.ok()) {
    // What has not ended stays so for another gpud, if there is to be one.
    SayUnusable({.why = std::string(status.message()),
                 .mark = {.named = std::exchange(marked_, false)}});
    for (Unfinished& launch : lost.unfinished) {
      launch.end(EventState::kAborted, Status(EventStatus::kShutdown));
    }
  }
  gate_.Open(status);
  barred.unlock();
  ResumeAll();
  // Not here: whoever goes with it may wait for this thread.
  std::lock_guard retirers_lock(retirers_mutex_);
  retirers_.emplace_back([lost = std::move(lost)] {});
}

absl::Status Gpu::TryToRecover(LostWork& lost) {
  NoteStep();
  if (unstoppable_.load(std::memory_order_relaxed)) {
    for (ContextUser* tenant : tenants_) tenant->EndOverdue(marked_);
    return Unstoppable();
  }
  marked_ = false;
  LoseContext();
  for (ContextUser* tenant : tenants_) tenant->TakeUnfinished(lost);
  EndWhatDoesNotRunAgain(lost);
  std::erase_if(lost.unfinished,
                [](const Unfinished& launch) { return launch.end == nullptr; });
  spdlog::warn("the CUDA context is made anew; {} launches run again",
               lost.unfinished.size());
  RETURN_IF_ERROR(SettleAnew());
  return Replay(lost);
}

// With the gate open: a device may have rung since its event was replayed, so that
// what resumes first may run a kernel that faults before the others have resumed.
// That is a loss as any other.
void Gpu::ResumeAll() {
  const ContextLease use = TryEnter();
  if (!use) return;
  for (ContextUser* tenant : tenants_) {
    const absl::Status status = tenant->Resume();
    NoteStep();
    if (status.ok()) continue;
    if (!Faulted()) {
      SayUnusable({.why = std::string(status.message())});
      gate_.Open(status);
    }
    return;
  }
}

absl::Status Gpu::Unstoppable() {
  return absl::InternalError(
      "a kernel does not end, and fills the GPU: what would stop it finds no "
      "room there");
}

void Gpu::SayUnusable(const Loss& loss) {
  std::call_once(unusable_, [&] {
    spdlog::error("the GPU cannot be used any more: {}", loss.why);
    if (const absl::Status noted = faults_.Note(loss.suspects, loss.mark);
        !noted.ok()) {
      spdlog::error("{}: devices end with gpud", noted.message());
    }
    if (options_.on_unusable) options_.on_unusable(loss.why);
  });
}

absl::Status Gpu::SettleAnew() {
  NoteStep();
  RETURN_IF_ERROR(MakeContext());
  NoteStep();
  for (ContextUser* tenant : tenants_) {
    RETURN_IF_ERROR(tenant->Settle());
    NoteStep();
  }
  return absl::OkStatus();
}

// Leaves in `unfinished` what has not ended when it fails.
absl::Status Gpu::Replay(LostWork& lost) {
  std::vector<Unfinished>& unfinished = lost.unfinished;
  std::reverse(unfinished.begin(),
               unfinished.end());  // the first is at the end
  int losses_in_a_row = 0;
  for (; !unfinished.empty(); unfinished.pop_back()) {
    Unfinished& launch = unfinished.back();
    ASSIGN_OR_RETURN(const AloneEnd end, RunAlone(launch));
    lost.keep.push_back(
        std::make_shared<decltype(launch.end)>(std::move(launch.end)));
    if (end == AloneEnd::kUnstoppable) {
      unfinished.pop_back();
      marked_ = true;
      return Unstoppable();
    }
    losses_in_a_row = end == AloneEnd::kSurvived ? 0 : losses_in_a_row + 1;
    if (end == AloneEnd::kSurvived) continue;
    if (losses_in_a_row > kMaxLossesInARow) {
      unfinished.pop_back();
      return absl::InternalError("every kernel faults");
    }
    LoseContext();
    if (absl::Status status = SettleAnew(); !status.ok()) {
      unfinished.pop_back();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Gpu::AloneEnd> Gpu::RunAlone(Unfinished& launch) {
  if (launch.timed_out) {
    launch.end(EventState::kFailed, Status(EventStatus::kTimedOut));
    return AloneEnd::kSurvived;
  }
  ASSIGN_OR_RETURN(auto entry,
                   PinnedBytes::Make(driver_, sizeof(shm::EcqEntry)));
  ASSIGN_OR_RETURN(auto scratch,
                   DeviceBytes::Make(driver_, sizeof(simt::EventScratch)));
  ASSIGN_OR_RETURN(const auto sequence,
                   LaunchSequence::Make(*this, launch.kmd));

  auto* completion = entry.as<shm::EcqEntry>();
  simt::EventFrame frame{};
  frame.ecq = completion;
  frame.scratch = scratch.as<simt::EventScratch>();
  frame.sequence = 1;
  const auto limit = static_cast<Nanoseconds>(
      std::chrono::nanoseconds(options_.longest_kernel).count());
  EventState state = EventState::kDone;
  uint32_t status = 0;
  bool timed_out = false;
  CUresult result = CUDA_SUCCESS;
  for (uint64_t block = 0; result == CUDA_SUCCESS && !timed_out;) {
    if (block == launch.kmd.blocks()) {
      launch.end(state, status);
      return AloneEnd::kSurvived;
    }
    const GridSlice slice =
        launch.slice_blocks == 0
            ? GridSlice{.size = launch.kmd.grid}
            : NextSlice(launch.kmd.grid, block, launch.slice_blocks);
    result =
        sequence.LaunchSlice(driver_, launch.kmd, frame, launch.args.data(),
                             watch_stream_.get(), slice);
    if (result != CUDA_SUCCESS && !IsContextFault(result)) {
      launch.end(EventState::kFailed, Status(EventStatus::kNotLaunched));
      return AloneEnd::kSurvived;
    }
    const Nanoseconds start = NowNs();
    while (result == CUDA_SUCCESS) {
      result = driver_.cuStreamQuery(watch_stream_.get());
      if (result != CUDA_ERROR_NOT_READY) break;
      timed_out = NowNs() - start > limit;
      if (timed_out) break;
      result = CUDA_SUCCESS;
      NoteStep();
      sched_yield();
    }
    block += slice.blocks();
    // As of a launch in slices: all run, and the first failure counts.
    if (result == CUDA_SUCCESS && state == EventState::kDone) {
      state = completion->state;
      status = completion->status;
    }
  }
  const bool stopped = !timed_out || StopRunningKernels();
  NoteStep();
  entry.Abandon();
  scratch.Abandon();
  launch.end(
      EventState::kFailed,
      Status(timed_out ? EventStatus::kTimedOut : EventStatus::kKernelFault));
  return stopped ? AloneEnd::kLost : AloneEnd::kUnstoppable;
}

}  // namespace carillon::gpud::cuda
