// The GPU as the CUDA back-end holds it: one context with the kernels in it. A
// kernel's fault costs the context and all that lives there; the Gpu makes a new
// one, and its tenants make anew what they had in the old one.
//
//   epoch    from a context's making to its loss
//   use      a thread's right to call the driver: none is given while a context
//            is lost, and a loss is dealt with when the last has ended
//   tenant   who has things in the context
//   resident who keeps kernels on the GPU; while they are there, the driver
//            neither frees nor registers memory (it waits for an idle GPU)
//   quiet    a time in which no resident's kernels are there
//
// After a loss, events and background kernels that had not ended run again, one
// at a time: the one that faults again was the culprit, and fails; the others
// cannot suffer from it.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "gpu_daemon/event/user_kernel.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::gpud::cuda {

// A launch that had not ended when its context was lost.
struct Unfinished {
  KernelMetadata kmd;
  std::vector<std::byte> args;
  std::function<void(shm::EventState state, uint32_t status)> end;
  // It was overdue: it ends so, and does not run again.
  bool timed_out = false;
};

// What a lost context leaves to do.
struct LostWork {
  std::vector<Unfinished> unfinished;
  // Let go of when there is a context again: what goes with its last owner may
  // have things of the driver's.
  std::vector<std::shared_ptr<const void>> keep;
};

// Where SMs are reserved (Options::reserved_sms), those of launch path edge and
// those of everything else; where none are, both are all SMs.
enum class SmSet : uint8_t { kEdge, kRest };

// Thread safe.
class Gpu {
 public:
  struct Options {
    // Fatbin with the kernels of kernels/.
    std::span<const std::byte> image;
    // SMs of launch path edge's own (SM reservation, EDGE
    // IV-A), as two green
    // contexts; the GPU may round up. 0: none.
    uint32_t reserved_sms = 0;
    // A kernel that runs for longer is stopped, at the price of the context.
    std::chrono::milliseconds longest_kernel{10'000};
    // How often the context's health is looked at.
    std::chrono::milliseconds look_every{50};
  };

  class ContextUser {
   public:
    virtual ~ContextUser() = default;
    // All calls come from one thread, while no use is given; the order is that
    // of this list.
    //
    // The context cannot be used any more: forget what is there, without
    // freeing it.
    virtual void Abandon() = 0;
    // The context is gone, and all that ran there. What was launched and has not
    // ended.
    virtual void TakeUnfinished(LostWork& lost) = 0;
    // There is a new one, current in this thread: make anew what is needed.
    virtual absl::Status Settle() = 0;
    // What had not ended has run again: kernels may be launched.
    virtual absl::Status Resume() { return absl::OkStatus(); }

    // Marks, as overdue, the oldest launch if it is older than `since`; true if
    // it is. Called at any time, in the same thread.
    virtual bool MarkOverdue(Nanoseconds since) = 0;
  };

  class PersistentWork {
   public:
    virtual ~PersistentWork() = default;
    // Takes its kernels from the GPU, and may put them there again. In turn, in
    // whatever thread, without a use.
    virtual void Pause() = 0;
    virtual void Unpause() = 0;
  };

  // While it lives, residents pause. May be nested in one thread; others wait.
  // Not in a context user's calls, nor with a lock that a resident takes.
  class PauseResidents {
   public:
    explicit PauseResidents(Gpu* gpu);
    ~PauseResidents();
    PauseResidents(const PauseResidents&) = delete;
    PauseResidents& operator=(const PauseResidents&) = delete;

   private:
    Gpu* const gpu_;
    const std::unique_lock<std::recursive_mutex> lock_;
  };

  // A thread's right to call the driver, with the context current.
  class ContextLease {
   public:
    ContextLease() = default;
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    friend class Gpu;
    explicit ContextLease(std::shared_lock<std::shared_mutex> lock)
        : lock_(std::move(lock)) {}
    std::shared_lock<std::shared_mutex> lock_;
  };

  // Under a use: graphs that this thread makes while this lives run on these SMs,
  // whatever stream they are launched in. Not to be nested.
  class PartitionScope {
   public:
    PartitionScope(Gpu* gpu, SmSet sms);
    ~PartitionScope();
    PartitionScope(const PartitionScope&) = delete;
    PartitionScope& operator=(const PartitionScope&) = delete;

   private:
    Gpu* const gpu_;
    // CUDA: a green context may be current to one thread at a time.
    std::unique_lock<std::mutex> lock_;
  };

  // The first GPU. Errors: Unimplemented (a GPU that lacks what gpud needs),
  // InvalidArgument (it cannot reserve so many SMs), those of the driver.
  static absl::StatusOr<std::unique_ptr<Gpu>> Open(Driver driver,
                                                   const Options& options);
  ~Gpu();  // tenants are gone by then

  const Driver& driver() const { return driver_; }
  const GpuModel& model() const { return model_; }
  // "NVIDIA H200 (132 SMs), driver 13.0".
  const std::string& description() const { return description_; }
  CUdevice device() const { return device_; }
  // SMs of launch path edge's own.
  uint32_t reserved_sms() const { return reserved_sms_; }
  std::chrono::milliseconds longest_kernel() const {
    return options_.longest_kernel;
  }
  // Contexts that were lost.
  uint64_t losses() const { return losses_.load(std::memory_order_relaxed); }

  // Waits for a context. False: there will be none any more.
  ContextLease Enter();
  // False, at once, while there is none.
  ContextLease TryEnter();

  // What a call gave, under a use: true if it was well. A fault makes the
  // context lost; what the caller has launched, it gives to TakeUnfinished().
  bool Check(CUresult result);

  // Under a use, after a failure of any kind: true if the context is lost. Then
  // what failed may be tried again once there is a new one.
  bool Faulted();

  // Under a use: ends whatever runs, at the price of the context.
  void StopEverything();

  // Under a use:
  // A function of the image. Errors: NotFound.
  absl::StatusOr<CUfunction> Function(const std::string& name);
  // The same, ready for launches of these dimensions: "carillon_call_" and the
  // kernel's name, say. Errors: InvalidArgument for a user's kernel, which has no
  // forms of gpud's.
  absl::StatusOr<CUfunction> FunctionFor(std::string_view prefix,
                                         const KernelMetadata& kmd);
  // A user's kernel as it is, ready for launches of these dimensions.
  absl::StatusOr<CUfunction> UserFunction(const KernelMetadata& kmd);
  // Bytes of shared memory to launch it with: of a user's kernel, those beside
  // the static ones, which its image asks for itself.
  static uint32_t DynamicShared(const KernelMetadata& kmd) {
    return kmd.kernel->is_users() ? kmd.shared_bytes : kmd.total_shared();
  }
  // What is added to the GPU's global timer to make it CLOCK_MONOTONIC;
  // measured now and then while tracing.
  int64_t clock_offset_ns() const {
    return clock_offset_ns_.load(std::memory_order_relaxed);
  }
  void SetTracing(bool on) { tracing_.store(on, std::memory_order_relaxed); }
  // A word of eight bytes in the image's device memory.
  absl::StatusOr<uint64_t> DeviceWord(const std::string& name);
  // CUDA's priority for one of ours.
  int NativePriority(uint32_t priority) const;
  // A stream on these SMs; of our priorities (kPriorities).
  absl::StatusOr<Stream> MakeStream(SmSet sms, uint32_t priority);

  // Without a use. A user's kernels: see Backend::LoadKernels(). The image is
  // kept, and loaded again after a loss. Kernels that launch kernels must be
  // quiet: loading waits for the GPU.
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source);

  // A context user is called from now on, until Remove() returns.
  void Add(ContextUser* tenant);
  void Remove(ContextUser* tenant);

  // From now on it is paused by a PauseResidents; until Remove() returns.
  void Add(PersistentWork* resident);
  void Remove(PersistentWork* resident);

  // Returns when nothing that a recovery has kept is left.
  void AwaitRetired();

  // Why the GPU cannot be used any more; OK while it can.
  absl::Status health() const;

 private:
  enum class State { kUp, kLost, kBroken };

  // A user's file.
  struct UserModule {
    std::vector<std::byte> image;  // with a NUL behind it
    Module module;
    std::vector<std::unique_ptr<UserKernel>> kernels;
    std::vector<CUfunction> functions;  // of the kernels, in this context
  };

  Gpu(Driver driver, const Options& options)
      : driver_(driver), options_(options) {}
  // Some SMs; without a reservation neither a context nor a use for one.
  struct Part {
    GreenContext green;
    CUcontext context = nullptr;
    std::mutex making;  // held by whoever has made the context current
  };

  absl::Status Describe();
  absl::Status MakeContext();
  absl::Status ReserveSms();
  absl::Status MakePart(CUdevResource sms, Part& part);
  Part& PartOf(SmSet sms) { return parts_[static_cast<size_t>(sms)]; }
  // Takes the context from all its users, or makes it anew for them. Under
  // tenants_mutex_.
  void LoseContext();
  absl::Status SettleAnew();
  absl::Status MakeReady(CUfunction function, const KernelMetadata& kmd) const;
  absl::Status LoadAgain(UserModule& user);
  absl::StatusOr<std::unique_ptr<UserModule>> TryLoad(
      const ModuleSource& source);
  absl::StatusOr<KernelLayout> LayoutOf(CUfunction function) const;
  void Watch();
  void LookAtHealth();
  void MeasureClock();
  void Recover();
  absl::Status Replay(LostWork& lost);
  // Runs it alone. False: the context is lost.
  absl::StatusOr<bool> RunAlone(Unfinished& launch);
  void StopRunningKernels();
  void SetState(State state);

  const Driver driver_;
  const Options options_;
  CUdevice device_ = 0;
  GpuModel model_;
  std::string description_;
  uint32_t reserved_sms_ = 0;
  int least_priority_ = 0;
  int greatest_priority_ = 0;

  // Held by uses (shared) and by recovery (alone).
  std::shared_mutex gate_;
  // Writers: whoever finds a fault (to kLost), the watching thread. Readers:
  // all. Relaxed: the gate orders what it stands for.
  std::atomic<State> state_{State::kUp};
  std::atomic<uint64_t> losses_{0};  // writer: the watching thread
  // Writers: whoever switches it; the watching thread. Relaxed: they stand for
  // themselves.
  std::atomic<bool> tracing_{false};
  std::atomic<int64_t> clock_offset_ns_{0};

  // Changed alone or under gate_ and functions_mutex_.
  CUcontext context_ = nullptr;
  uint64_t epoch_ = 0;  // of all contexts of this process, from 1
  std::array<Part, 2> parts_;
  Module module_;
  Stream watch_stream_;  // replays
  PinnedBytes clock_;    // a word of the GPU's time
  Stream stop_stream_;   // for what must pass by a kernel that does not end
  std::mutex functions_mutex_;
  std::map<std::string, CUfunction, std::less<>> functions_;
  std::map<const simt::KernelInfo*, CUfunction> user_functions_;
  std::vector<std::unique_ptr<UserModule>> user_modules_;

  std::recursive_mutex quiet_mutex_;
  uint32_t quiets_ = 0;  // of the thread that holds it
  std::vector<PersistentWork*> residents_;

  std::mutex tenants_mutex_;
  std::vector<ContextUser*> tenants_;

  mutable std::mutex state_mutex_;
  std::condition_variable state_changed_;
  absl::Status broken_;
  bool stopping_ = false;
  std::thread watcher_;
  std::mutex retirers_mutex_;
  std::vector<std::thread> retirers_;  // let go of what recoveries have kept
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_
