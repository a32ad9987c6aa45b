#include "gpu_daemon/backends/cuda/driver/gpu.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/module_image.h"
#include "gpu_daemon/event/refusal.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::Open(Driver driver,
                                               const Options& options) {
  std::unique_ptr<Gpu> gpu(new Gpu(driver, options));
  RETURN_IF_ERROR(gpu->Describe());
  RETURN_IF_ERROR(gpu->MakeContext());
  gpu->watcher_ = std::thread([gpu = gpu.get()] { gpu->Watch(); });
  return gpu;
}

Gpu::~Gpu() {
  {
    std::lock_guard lock(state_mutex_);
    stopping_ = true;
  }
  state_changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  AwaitRetired();
  if (context_ != nullptr) {
    driver_.cuCtxSetCurrent(context_);
    clock_ = {};
    watch_stream_.Reset();
    stop_stream_.Reset();
    module_.Reset();
    for (auto& user : user_modules_) user->module.Reset();
    for (Part& part : parts_) part.green.Reset();
    driver_.cuDevicePrimaryCtxRelease(device_);
  }
}

absl::Status Gpu::Describe() {
  RETURN_IF_ERROR(ToStatus(driver_, driver_.cuDeviceGet(&device_, 0),
                           "find the first GPU"));
  int version = 0;
  char name[256] = {};
  driver_.cuDriverGetVersion(&version);
  driver_.cuDeviceGetName(name, sizeof(name), device_);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver_.cuDeviceGetAttribute(&value, which, device_);
    return static_cast<uint32_t>(std::max(value, 0));
  };
  model_ = {.sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            .blocks_per_sm =
                attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            .threads_per_sm =
                attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            .registers_per_sm =
                attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            .shared_bytes_per_sm = attribute(
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)};
  description_ = fmt::format("{} ({} SMs), driver {}", name, model_.sms,
                             VersionName(version));
  if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) ==
      0) {
    return absl::UnimplementedError(fmt::format(
        "{} cannot use the host's addresses for registered memory: gpud needs "
        "a GPU that does",
        description_));
  }
  return absl::OkStatus();
}

absl::Status Gpu::MakeContext() {
  // The primary one: green contexts are parts of it, and share its modules and
  // its memory.
  if (auto status = ToStatus(
          driver_, driver_.cuDevicePrimaryCtxRetain(&context_, device_),
          "make a CUDA context");
      !status.ok()) {
    context_ = nullptr;
    return status;
  }
  static std::atomic<uint64_t> epochs{0};  // writers: those who make contexts
  epoch_ = epochs.fetch_add(1, std::memory_order_relaxed) + 1;
  driver_.cuCtxSetCurrent(context_);
  driver_.cuCtxGetStreamPriorityRange(&least_priority_, &greatest_priority_);
  RETURN_IF_ERROR(ReserveSms());
  ASSIGN_OR_RETURN(module_, LoadModule(driver_, options_.image));
  for (auto& user : user_modules_) {
    RETURN_IF_ERROR(LoadAgain(*user));
  }
  for (Stream* stream : {&watch_stream_, &stop_stream_}) {
    ASSIGN_OR_RETURN(*stream, cuda::MakeStream(driver_, greatest_priority_));
  }
  ASSIGN_OR_RETURN(clock_, PinnedBytes::Make(driver_, sizeof(uint64_t)));
  MeasureClock();
  return absl::OkStatus();
}

absl::Status Gpu::ReserveSms() {
  if (options_.reserved_sms == 0) return absl::OkStatus();
  CUdevResource all = {};
  CUdevResource edge = {};
  CUdevResource rest = {};
  unsigned groups = 1;
  CUresult result =
      driver_.cuDeviceGetDevResource(device_, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (result == CUDA_SUCCESS) {
    // Fewer than that a GPU of compute capability 9.0 gives only without room
    // for thread block clusters, of which gpud launches none.
    constexpr uint32_t kSmsOfClusters = 8;
    result = driver_.cuDevSmResourceSplitByCount(
        &edge, &groups, &all, &rest,
        options_.reserved_sms < kSmsOfClusters
            ? CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
            : 0,
        options_.reserved_sms);
  }
  const std::string what =
      fmt::format("reserve {} of {} SMs", options_.reserved_sms, model_.sms);
  if (result == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION ||
      (result == CUDA_SUCCESS && rest.sm.smCount == 0)) {
    return absl::InvalidArgumentError(
        fmt::format("cannot {}: some must be left for everything else", what));
  }
  absl::Status status = ToStatus(driver_, result, what);
  if (status.ok()) status = MakePart(edge, PartOf(SmSet::kEdge));
  if (status.ok()) status = MakePart(rest, PartOf(SmSet::kRest));
  if (status.ok()) reserved_sms_ = edge.sm.smCount;
  return status;
}

absl::Status Gpu::MakePart(CUdevResource sms, Part& part) {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUresult result = driver_.cuDevResourceGenerateDesc(&description, &sms, 1);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuGreenCtxCreate(&green, description, device_,
                                      CU_GREEN_CTX_DEFAULT_STREAM);
  }
  if (result == CUDA_SUCCESS) {
    part.green = GreenContext(&driver_, green);
    result = driver_.cuCtxFromGreenCtx(&part.context, green);
  }
  return ToStatus(driver_, result, "make a green context of reserved SMs");
}

Gpu::PartitionScope::PartitionScope(Gpu* gpu, SmSet sms) : gpu_(gpu) {
  Part& part = gpu->PartOf(sms);
  if (part.context == nullptr) return;
  lock_ = std::unique_lock(part.making);
  gpu->driver_.cuCtxSetCurrent(part.context);
}

Gpu::PartitionScope::~PartitionScope() {
  if (lock_) gpu_->driver_.cuCtxSetCurrent(gpu_->context_);
}

void Gpu::LoseContext() {
  losses_.fetch_add(1, std::memory_order_relaxed);
  for (ContextUser* tenant : tenants_) tenant->Abandon();
  clock_.Abandon();
  watch_stream_.Abandon();
  stop_stream_.Abandon();
  module_.Abandon();
  functions_.clear();
  for (auto& user : user_modules_) user->module.Abandon();
  user_functions_.clear();
  for (Part& part : parts_) {
    part.context = nullptr;
    part.green.Reset();
  }
  if (context_ != nullptr) {
    driver_.cuDevicePrimaryCtxReset(device_);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }
  context_ = nullptr;
}

Gpu::ContextLease Gpu::TryEnter() {
  if (state_.load(std::memory_order_relaxed) != State::kUp) return {};
  // Without waiting: recovery may wait for what this thread holds.
  std::shared_lock lock(gate_, std::try_to_lock);
  if (!lock || state_.load(std::memory_order_relaxed) != State::kUp) return {};
  thread_local uint64_t current_epoch = 0;
  if (current_epoch != epoch_) {
    driver_.cuCtxSetCurrent(context_);
    current_epoch = epoch_;
  }
  return ContextLease(std::move(lock));
}

Gpu::ContextLease Gpu::Enter() {
  while (true) {
    if (ContextLease use = TryEnter()) return use;
    std::unique_lock lock(state_mutex_);
    state_changed_.wait(lock, [this] {
      return stopping_ ||
             state_.load(std::memory_order_relaxed) != State::kLost;
    });
    if (stopping_ || state_.load(std::memory_order_relaxed) == State::kBroken) {
      return {};
    }
  }
}

bool Gpu::Check(CUresult result) {
  if (result == CUDA_SUCCESS) return true;
  if (IsContextFault(result)) {
    auto up = State::kUp;
    if (state_.compare_exchange_strong(up, State::kLost,
                                       std::memory_order_relaxed)) {
      spdlog::warn("a kernel faulted: {}", ErrorText(driver_, result));
      std::lock_guard lock(state_mutex_);
      state_changed_.notify_all();
    }
  }
  return false;
}

bool Gpu::Faulted() {
  const CUresult result = driver_.cuStreamQuery(watch_stream_.get());
  if (result != CUDA_ERROR_NOT_READY) Check(result);
  return state_.load(std::memory_order_relaxed) != State::kUp;
}

absl::StatusOr<CUfunction> Gpu::Function(const std::string& name) {
  std::lock_guard lock(functions_mutex_);
  const auto known = functions_.find(name);
  if (known != functions_.end()) return known->second;
  auto function = FindFunction(driver_, module_.get(), name.c_str());
  if (function.ok()) functions_[name] = *function;
  return function;
}

absl::StatusOr<CUfunction> Gpu::FunctionFor(std::string_view prefix,
                                            const KernelMetadata& kmd) {
  RETURN_IF_ERROR(CheckCompletesItself(*kmd.kernel));
  auto function = Function(fmt::format("{}{}", prefix, kmd.kernel->name));
  if (!function.ok()) return function;
  RETURN_IF_ERROR(MakeReady(*function, kmd));
  return function;
}

absl::StatusOr<CUfunction> Gpu::UserFunction(const KernelMetadata& kmd) {
  CUfunction function = nullptr;
  {
    std::lock_guard lock(functions_mutex_);
    function = user_functions_.at(kmd.kernel);
  }
  RETURN_IF_ERROR(MakeReady(function, kmd));
  return function;
}

absl::Status Gpu::MakeReady(CUfunction function,
                            const KernelMetadata& kmd) const {
  // What a launch gets without asking.
  constexpr uint32_t kSharedBytes = 48 * 1024;
  if (kmd.total_shared() <= kSharedBytes) return absl::OkStatus();
  return OnAnyPath(
      ToStatus(driver_,
               driver_.cuFuncSetAttribute(
                   function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   static_cast<int>(DynamicShared(kmd))),
               fmt::format("give kernel '{}' {} bytes of shared memory",
                           kmd.kernel->name, kmd.total_shared())));
}

absl::StatusOr<KernelLayout> Gpu::LayoutOf(CUfunction function) const {
  KernelLayout layout;
  while (true) {
    size_t offset = 0;
    size_t bytes = 0;
    const CUresult result = driver_.cuFuncGetParamInfo(
        function, layout.parameters.size(), &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    RETURN_IF_ERROR(ToStatus(driver_, result, "ask for a parameter's place"));
    layout.parameters.push_back(
        {static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
  }
  const struct {
    CUfunction_attribute attribute;
    uint32_t* value;
  } wanted[] = {
      {CU_FUNC_ATTRIBUTE_NUM_REGS, &layout.registers_per_thread},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &layout.static_shared_bytes},
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &layout.most_threads}};
  for (const auto& [attribute, value] : wanted) {
    int found = 0;
    RETURN_IF_ERROR(ToStatus(
        driver_, driver_.cuFuncGetAttribute(&found, attribute, function),
        "ask what a kernel needs"));
    *value = static_cast<uint32_t>(std::max(found, 0));
  }
  return layout;
}

absl::StatusOr<std::unique_ptr<Gpu::UserModule>> Gpu::TryLoad(
    const ModuleSource& source) {
  auto user = std::make_unique<UserModule>();
  user->image.assign(source.image.begin(), source.image.end());
  user->image.push_back(std::byte{0});
  auto module = LoadModule(driver_, user->image);
  if (!module.ok()) {
    return absl::Status(
        module.status().code(),
        fmt::format("{}: {}", source.file, module.status().message()));
  }
  user->module = *std::move(module);
  for (const KernelDeclaration& declaration : source.kernels) {
    const auto function =
        FindFunction(driver_, user->module.get(), declaration.symbol.c_str());
    if (absl::IsNotFound(function.status())) {
      return absl::NotFoundError(fmt::format(
          "{} has no kernel '{}': is it a __global__, extern \"C\", and not "
          "static?",
          source.file, declaration.symbol));
    }
    if (!function.ok()) return function.status();
    ASSIGN_OR_RETURN(const auto layout, LayoutOf(*function));
    ASSIGN_OR_RETURN(auto kernel,
                     UserKernel::Make(declaration, source.file, layout));
    user->kernels.push_back(std::move(kernel));
    user->functions.push_back(*function);
  }
  return user;
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> Gpu::LoadKernels(
    const ModuleSource& source) {
  RETURN_IF_ERROR(CheckModuleImage(source.image, source.file));
  while (true) {
    const ContextLease use = Enter();
    if (!use) return health();
    auto user = TryLoad(source);
    if (!user.ok()) {
      if (Faulted()) continue;
      return user.status();
    }
    std::vector<const simt::KernelInfo*> infos;
    std::lock_guard lock(functions_mutex_);
    for (size_t i = 0; i < (*user)->kernels.size(); ++i) {
      infos.push_back(&(*user)->kernels[i]->info());
      user_functions_[infos.back()] = (*user)->functions[i];
    }
    user_modules_.push_back(*std::move(user));
    return infos;
  }
}

absl::Status Gpu::LoadAgain(UserModule& user) {
  ASSIGN_OR_RETURN(user.module, LoadModule(driver_, user.image));
  for (size_t i = 0; i < user.kernels.size(); ++i) {
    ASSIGN_OR_RETURN(user.functions[i],
                     FindFunction(driver_, user.module.get(),
                                  user.kernels[i]->symbol().c_str()));
    user_functions_[&user.kernels[i]->info()] = user.functions[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Stream> Gpu::MakeStream(SmSet sms, uint32_t priority) {
  const Part& part = PartOf(sms);
  return part.green
             ? cuda::MakeStream(driver_, part.green, NativePriority(priority))
             : cuda::MakeStream(driver_, NativePriority(priority));
}

int Gpu::NativePriority(uint32_t priority) const {
  return least_priority_ + (greatest_priority_ - least_priority_) *
                               static_cast<int>(priority) /
                               static_cast<int>(kPriorities - 1);
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

absl::Status Gpu::health() const {
  std::lock_guard lock(state_mutex_);
  return broken_;
}

void Gpu::SetState(State state) {
  std::lock_guard lock(state_mutex_);
  state_.store(state, std::memory_order_relaxed);
  state_changed_.notify_all();
}

void Gpu::Watch() {
  pthread_setname_np(pthread_self(), "gpud-gpu-watch");
  std::unique_lock lock(state_mutex_);
  while (!stopping_) {
    state_changed_.wait_for(lock, options_.look_every, [this] {
      return stopping_ ||
             state_.load(std::memory_order_relaxed) == State::kLost;
    });
    if (stopping_) return;
    lock.unlock();
    LookAtHealth();
    if (state_.load(std::memory_order_relaxed) == State::kLost) Recover();
    lock.lock();
  }
}

void Gpu::LookAtHealth() {
  {
    const ContextLease use = TryEnter();
    if (!use) return;
    const CUresult result = driver_.cuStreamQuery(watch_stream_.get());
    if (result != CUDA_ERROR_NOT_READY && !Check(result)) return;
    if (result == CUDA_SUCCESS && tracing_.load(std::memory_order_relaxed)) {
      MeasureClock();
    }
  }
  const Nanoseconds since =
      NowNs() - static_cast<Nanoseconds>(
                    std::chrono::nanoseconds(options_.longest_kernel).count());
  std::lock_guard lock(tenants_mutex_);
  for (ContextUser* tenant : tenants_) {
    if (!tenant->MarkOverdue(since)) continue;
    spdlog::warn(
        "a kernel ran for more than {} ms: it is stopped, and the "
        "CUDA context with it",
        options_.longest_kernel.count());
    if (const ContextLease use = TryEnter()) StopEverything();
    return;
  }
}

// The GPU's time lies between two looks at ours: the closest pair of some counts.
void Gpu::MeasureClock() {
  const auto function = Function("carillon_clock");
  if (!function.ok()) return;
  auto* word = clock_.as<uint64_t>();
  void* parameters[] = {&word};
  Nanoseconds best = ~Nanoseconds{0};
  for (int i = 0; i < 5; ++i) {
    const Nanoseconds before = NowNs();
    if (driver_.cuLaunchKernel(*function, 1, 1, 1, 1, 1, 1, 0,
                               watch_stream_.get(), parameters,
                               nullptr) != CUDA_SUCCESS ||
        driver_.cuStreamSynchronize(watch_stream_.get()) != CUDA_SUCCESS) {
      return;
    }
    const Nanoseconds took = NowNs() - before;
    if (took >= best) continue;
    best = took;
    clock_offset_ns_.store(static_cast<int64_t>(before + took / 2 - *word),
                           std::memory_order_relaxed);
  }
}

// Nothing else stops a kernel: another one's trap takes the context, and with it
// all that runs there.
void Gpu::StopRunningKernels() {
  const auto trap = Function("carillon_trap");
  if (!trap.ok()) return;
  if (driver_.cuLaunchKernel(*trap, 1, 1, 1, 1, 1, 1, 0, stop_stream_.get(),
                             nullptr, nullptr) != CUDA_SUCCESS) {
    return;
  }
  const Nanoseconds start = NowNs();
  while (driver_.cuStreamQuery(stop_stream_.get()) == CUDA_ERROR_NOT_READY &&
         NowNs() - start < kStopLimitNs) {
    sched_yield();
  }
}

void Gpu::StopEverything() {
  StopRunningKernels();
  auto up = State::kUp;
  state_.compare_exchange_strong(up, State::kLost, std::memory_order_relaxed);
  std::lock_guard lock(state_mutex_);
  state_changed_.notify_all();
}

absl::StatusOr<uint64_t> Gpu::DeviceWord(const std::string& name) {
  CUdeviceptr address = 0;
  size_t size = 0;
  uint64_t word = 0;
  const std::string what = fmt::format("read '{}'", name);
  auto status = ToStatus(
      driver_,
      driver_.cuModuleGetGlobal(&address, &size, module_.get(), name.c_str()),
      what);
  if (status.ok() && size != sizeof(word)) {
    status = absl::InternalError(fmt::format("'{}' has {} bytes", name, size));
  }
  if (status.ok()) {
    status = ToStatus(driver_,
                      driver_.cuMemcpyDtoH(&word, address, sizeof(word)), what);
  }
  if (!status.ok()) return status;
  return word;
}

void Gpu::Recover() {
  std::unique_lock gate(gate_);
  std::lock_guard lock(tenants_mutex_);
  LoseContext();
  LostWork lost;
  for (ContextUser* tenant : tenants_) tenant->TakeUnfinished(lost);
  spdlog::warn("the CUDA context is made anew; {} launches run again",
               lost.unfinished.size());
  absl::Status status = SettleAnew();
  if (status.ok()) status = Replay(lost);
  for (size_t i = 0; status.ok() && i < tenants_.size(); ++i) {
    status = tenants_[i]->Resume();
  }
  if (!status.ok()) {
    spdlog::error("the GPU cannot be used any more: {}", status.message());
    for (Unfinished& launch : lost.unfinished) {
      launch.end(EventState::kAborted, Status(EventStatus::kShutdown));
    }
    std::lock_guard state_lock(state_mutex_);
    broken_ = status;
  }
  SetState(status.ok() ? State::kUp : State::kBroken);
  // Not here: whoever goes with it may wait for this thread.
  std::lock_guard retirers_lock(retirers_mutex_);
  retirers_.emplace_back([lost = std::move(lost)] {});
}

absl::Status Gpu::SettleAnew() {
  RETURN_IF_ERROR(MakeContext());
  for (ContextUser* tenant : tenants_) RETURN_IF_ERROR(tenant->Settle());
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
    ASSIGN_OR_RETURN(const auto survived, RunAlone(launch));
    lost.keep.push_back(
        std::make_shared<decltype(launch.end)>(std::move(launch.end)));
    losses_in_a_row = survived ? 0 : losses_in_a_row + 1;
    if (survived) continue;
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

absl::StatusOr<bool> Gpu::RunAlone(Unfinished& launch) {
  if (launch.timed_out) {
    launch.end(EventState::kFailed, Status(EventStatus::kTimedOut));
    return true;
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
  CUresult result = sequence.Launch(driver_, launch.kmd, frame,
                                    launch.args.data(), watch_stream_.get());
  if (result != CUDA_SUCCESS && !IsContextFault(result)) {
    launch.end(EventState::kFailed, Status(EventStatus::kNotLaunched));
    return true;
  }
  const auto limit = static_cast<Nanoseconds>(
      std::chrono::nanoseconds(options_.longest_kernel).count());
  const Nanoseconds start = NowNs();
  bool timed_out = false;
  while (result == CUDA_SUCCESS) {
    result = driver_.cuStreamQuery(watch_stream_.get());
    if (result != CUDA_ERROR_NOT_READY) break;
    timed_out = NowNs() - start > limit;
    if (timed_out) break;
    result = CUDA_SUCCESS;
    sched_yield();
  }
  if (result == CUDA_SUCCESS) {
    launch.end(completion->state, completion->status);
    return true;
  }
  if (timed_out) StopRunningKernels();
  entry.Abandon();
  scratch.Abandon();
  launch.end(
      EventState::kFailed,
      Status(timed_out ? EventStatus::kTimedOut : EventStatus::kKernelFault));
  return false;
}

}  // namespace carillon::gpud::cuda
