// The GPU as the CUDA back-end holds it: one context with the kernels in it. A
// kernel's fault costs the context and all that lives there, and NVIDIA's driver
// gives the process no other: the process ends, to be started again
// (docs/decisions/032-a-fault-ends-gpud.md). Where the driver is gpud's own, the Gpu
// makes a new context, and its tenants make anew what they had in the old one.
//
//   epoch    from a context's making to its loss
//   use      a thread's right to call the driver: none is given while a context
//            is lost, and a loss is dealt with when the last has ended
//   tenant   who has things in the context
//   resident who keeps kernels on the GPU; while they are there, the driver
//            neither frees nor registers memory (it waits for an idle GPU)
//   quiet    a time in which no resident's kernels are there
//
// In a new context, events and background kernels that had not ended run again, one
// at a time: the one that faults again was the culprit, and fails; the others
// cannot suffer from it. In a new process they run as their devices ring them, and a
// FaultRecord finds the culprit.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/context.h"
#include "gpu_daemon/backends/cuda/driver/context_gate.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/fault_record.h"
#include "gpu_daemon/backends/cuda/driver/modules.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/driver/resident_room.h"
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
  RunId run;
  // Still with gpud: the GPU has nothing of it.
  bool waits = false;
  // It, or one of those that are so, does not end.
  bool overdue = false;
  // It was overdue: it ends so, and does not run again.
  bool timed_out = false;
  // Nor does what has this: it ends so, unless it was what faulted.
  struct End {
    shm::EventState state;
    uint32_t status;
  };
  std::optional<End> ends_as = std::nullopt;
  // It ran in slices: so it does again, each of at most so many blocks and with the
  // usual time. 0: whole.
  uint64_t slice_blocks = 0;
};

// What a lost context leaves to do.
struct LostWork {
  std::vector<Unfinished> unfinished;
  // Let go of when there is a context again: what goes with its last owner may
  // have things of the driver's.
  std::vector<std::shared_ptr<const void>> keep;
};

// Thread safe.
class Gpu {
 public:
  struct Options {
    // Fatbin with the kernels of kernels/.
    std::span<const std::byte> image;
    // SMs of launch path edge's own, and of events' under policy reservation (SM
    // reservation, EDGE IV-A), as two green contexts; the GPU may round up. 0: none
    // of edge's, and half of them under that policy.
    uint32_t reserved_sms = 0;
    // The driver makes a context that works after a fault. NVIDIA's does not in the
    // same process; the one of --driver sim does.
    bool recovers = false;
    // Where it does not: FaultRecord's file.
    std::string restart_mark;
    // A kernel that runs for longer is stopped, at the price of the context.
    std::chrono::milliseconds longest_kernel{10'000};
    // How often the context's health is looked at.
    std::chrono::milliseconds look_every{50};
    // A step after a loss that takes longer has no end: a driver may wait for ever
    // for a kernel that does not leave the GPU.
    std::chrono::milliseconds longest_step{5'000};
    // Told once, and why, when nothing in this process can use the GPU any more. In
    // whatever thread, under locks. It should end the process; where it returns,
    // what needs the GPU fails.
    std::function<void(const std::string& why)> on_unusable;
  };

  class ContextUser {
   public:
    virtual ~ContextUser() = default;
    // All calls come from one thread, while no use is given but for the last
    // ones; the order is that of this list.
    //
    // The context cannot be used any more: forget what is there, without
    // freeing it.
    virtual void Abandon() = 0;
    // The context is gone, and all that ran there; or the process goes, and it does
    // not end what is overdue. What was launched and has not ended.
    virtual void TakeUnfinished(LostWork& lost) = 0;
    // There is a new one, current in this thread: make anew what is needed.
    virtual absl::Status Settle() = 0;
    // What had not ended has run again: kernels may be launched. Under a use, which
    // others have by now, too.
    virtual absl::Status Resume() { return absl::OkStatus(); }

    // Since when it has been there, if something that the GPU has taken is older
    // than `since`: the oldest of it. Called at any time, in the same thread.
    virtual std::optional<Nanoseconds> OldestTaken(Nanoseconds since) = 0;
    // Marks what that is, if that is known: it ends as timed out, and the others,
    // and all if it is not known, run again, alone, where each has its own time.
    // False: it has ended meanwhile.
    virtual bool MarkOverdue(Nanoseconds since) = 0;
    // Nothing stops what was marked but the end of this process: completes it for
    // its device, as timed out, so that the next gpud does not run it again.
    // Where several may be it, all of them: also all that the GPU has taken, if
    // nobody has `marked` anything.
    virtual void EndOverdue(bool marked) = 0;
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

  using ContextLease = cuda::ContextLease;

  // The first GPU. Errors: Unimplemented (a GPU that lacks what gpud needs),
  // InvalidArgument (it cannot reserve so many SMs), those of the driver.
  static absl::StatusOr<std::unique_ptr<Gpu>> Open(Driver driver,
                                                   const Options& options);
  ~Gpu();  // tenants are gone by then

  const Driver& driver() const { return driver_; }
  const GpuModel& model() const { return context_.model(); }
  // "NVIDIA H200 (132 SMs), driver 13.0".
  const std::string& description() const { return context_.description(); }
  CUdevice device() const { return context_.device(); }
  // SMs of launch path edge's own.
  uint32_t reserved_sms() const { return context_.reserved_sms(); }
  SmParts parts() const { return context_.parts(); }
  bool divided() const { return parts().events != 0; }
  std::chrono::milliseconds longest_kernel() const {
    return options_.longest_kernel;
  }
  // Contexts that were lost.
  uint64_t losses() const { return losses_.load(std::memory_order_relaxed); }

  // Waits for a context. False: there will be none any more.
  ContextLease Enter() { return MadeCurrent(gate_.Enter()); }
  // False, at once, while there is none.
  ContextLease TryEnter() { return MadeCurrent(gate_.TryEnter()); }

  // What a call gave, under a use: true if it was well. A fault makes the
  // context lost; what the caller has launched, it gives to TakeUnfinished().
  bool Check(CUresult result);

  // Under a use, after a failure of any kind: true if the context is lost. Then
  // what failed may be tried again once there is a new one.
  bool Faulted();

  // Under a use: ends whatever runs, at the price of the context; or of the
  // process, where that is the price, or a kernel leaves no room for the one that
  // would end it.
  void StopEverything();

  // A word of the host's that a resident kernel looks at, until it is removed: 1
  // has it trap, which needs no room on the GPU.
  void AddTrap(uint32_t* word);
  void RemoveTrap(uint32_t* word);

  // Under a use: see Modules.
  absl::StatusOr<CUfunction> Function(const std::string& name) {
    return modules_.Find(name);
  }
  absl::StatusOr<CUfunction> FunctionFor(std::string_view prefix,
                                         const KernelMetadata& kmd) {
    return modules_.FindFor(prefix, kmd);
  }
  absl::StatusOr<CUfunction> UserFunction(const KernelMetadata& kmd) {
    return modules_.FindUsers(kmd);
  }
  absl::StatusOr<SliceFunction> SlicesOf(const KernelMetadata& kmd) {
    return modules_.FindSlices(kmd);
  }
  absl::StatusOr<uint64_t> DeviceWord(const std::string& name) const {
    return modules_.DeviceWord(name);
  }

  // What is added to the GPU's global timer to make it CLOCK_MONOTONIC;
  // measured now and then while tracing.
  int64_t clock_offset_ns() const {
    return clock_offset_ns_.load(std::memory_order_relaxed);
  }
  void SetTracing(bool on) { tracing_.store(on, std::memory_order_relaxed); }
  // Under a use: see Context. Every stream but the Gpu's own two is made here.
  int NativePriority(uint32_t priority) const {
    return context_.NativePriority(priority);
  }
  absl::Status Divide() { return context_.Divide(); }
  void Undivide() { context_.Undivide(); }
  Context::OnSms OnSms(SmSet sms) { return {&context_, sms}; }
  absl::StatusOr<Stream> MakeStream(SmSet sms, uint32_t priority) {
    return context_.MakeStream(sms, priority);
  }

  // Room to stay on these SMs: see ResidentRoom::Take(). Under a use.
  absl::StatusOr<std::unique_ptr<ResidentRoom::Held>> TakeRoom(
      std::string_view path, const BlockCost& cost, uint32_t least,
      uint32_t most, SmSet sms);

  // Without a use. A user's kernels: see Backend::LoadKernels(). The image is
  // kept, and loaded again after a loss. Kernels that launch kernels must be
  // quiet: loading waits for the GPU.
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source);

  // Without a use: see Modules::Release().
  absl::Status ReleaseBarrier();

  // A context user is called from now on, until Remove() returns.
  void Add(ContextUser* tenant);
  void Remove(ContextUser* tenant);

  // From now on it is paused by a PauseResidents; until Remove() returns.
  void Add(PersistentWork* resident);
  void Remove(PersistentWork* resident);

  // Returns when nothing that a recovery has kept is left.
  void AwaitRetired();

  // Why the GPU cannot be used any more; OK while it can.
  absl::Status health() const { return gate_.health(); }

 private:
  Gpu(Driver driver, const Options& options)
      : driver_(driver), options_(options) {}

  ContextLease MadeCurrent(ContextLease lease) const {
    if (lease) context_.MakeCurrent();
    return lease;
  }
  absl::Status MakeContext();
  absl::Status TakeStack(uint32_t frame_bytes);
  // Takes the context from all its users, or makes it anew for them. Under
  // tenants_mutex_.
  void LoseContext();
  absl::Status SettleAnew();
  void Watch();
  void LookAtHealth();
  // Waits for no longer than `limit`.
  void MeasureClock(Nanoseconds limit);
  // Ends what cannot run again for its device, and then the process.
  void End();
  struct Loss {
    std::string why;
    // Of these any may have faulted.
    std::vector<RunId> suspects = {};
    RestartMark mark = {};
  };
  Loss EndCulprits(std::vector<Unfinished>& unfinished);
  void Recover();
  absl::Status TryToRecover(LostWork& lost);
  // Under tenants_mutex_.
  void ResumeAll();
  // The watching thread goes on, in a recovery or else.
  void NoteStep() { last_step_ns_.store(NowNs(), std::memory_order_relaxed); }
  void SayUnusable(const Loss& loss);
  static absl::Status Unstoppable();
  absl::Status Replay(LostWork& lost);
  // What came of a launch that ran alone. It has ended in any case; kSurvived:
  // the context has outlived it, kUnstoppable: what ran for it runs on.
  enum class AloneEnd { kSurvived, kLost, kUnstoppable };
  // Errors: it could not be run, and has not ended.
  absl::StatusOr<AloneEnd> RunAlone(Unfinished& launch);
  // False: they run on.
  bool StopRunningKernels();

  const Driver driver_;
  const Options options_;

  ContextGate gate_;
  // Changed with the gate barred.
  Context context_{&driver_, options_.reserved_sms};
  Modules modules_{&driver_, options_.image};
  const FaultRecord faults_{options_.restart_mark};
  std::optional<ResidentRoom> room_;  // as long as it is open
  Stream watch_stream_;               // replays
  PinnedBytes clock_;                 // a word of the GPU's time
  Stream stop_stream_;  // for what must pass by a kernel that does not end

  std::atomic<uint64_t> losses_{0};  // writer: the watching thread
  // When the watching thread's last step ended: a look, or one of a recovery.
  // Writer: that thread; readers: its StepLimits. Relaxed: a time that stands for
  // itself.
  std::atomic<Nanoseconds> last_step_ns_{0};
  std::once_flag unusable_;
  // A kernel could not be stopped. Writers: whoever tries; reader: the watching
  // thread. Relaxed: the gate's mutex orders it with the loss.
  std::atomic<bool> unstoppable_{false};
  // The context is lost because something does not end, and not by a fault. As
  // `unstoppable_`.
  std::atomic<bool> stopped_{false};
  // The driver has said that the hardware failed. As `unstoppable_`.
  std::atomic<bool> hardware_{false};
  // Something is marked, or has ended as overdue and runs on; the watching
  // thread's.
  bool marked_ = false;
  // When it last looked for what does not end. Of what the GPU had taken then,
  // since when the oldest has been there (0: there was nothing), and been the
  // oldest. The watching thread's.
  Nanoseconds looked_ = 0;
  Nanoseconds oldest_ = 0;
  Nanoseconds oldest_since_ = 0;
  std::mutex traps_mutex_;
  std::vector<uint32_t*> traps_;
  // Writers: whoever switches it; the watching thread. Relaxed: they stand for
  // themselves.
  std::atomic<bool> tracing_{false};
  std::atomic<int64_t> clock_offset_ns_{0};

  std::recursive_mutex quiet_mutex_;
  uint32_t quiets_ = 0;  // of the thread that holds it
  std::vector<PersistentWork*> residents_;

  std::mutex tenants_mutex_;
  std::vector<ContextUser*> tenants_;

  std::thread watcher_;
  std::mutex retirers_mutex_;
  std::vector<std::thread> retirers_;  // let go of what recoveries have kept
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GPU_H_
