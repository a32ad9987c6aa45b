// Launch path `pagoda` on CUDA (Pagoda 4.2): the front-end's thread spawns each
// event as a task into the TaskTable, by a copy, and MTBs of a MasterKernel that
// stays on the GPU empty it. The task's last warp completes the event.
//
//   doorbells <= poll = front-end's thread: waiting events, in their order
//                         | one copy an entry   ^ the table's states, when no entry
//                         v                     | is known to be free
//   TaskTable in GPU memory: a column an MTB ----
//
//   how many   as many MTBs as on pagoda_ring (mtbs.h), and none before an event
//              kernel is registered. No task is spawned before all are there;
//              where they find no room they leave and are launched anew, and after
//              three times in vain the path gives up.
//   quiet      The MTBs leave: what has begun has ended, and what was spawned and
//              had not begun waits for the next MasterKernel, whose table is empty.
//   the last   A task's entry is released by its successor's copy, or, if none has
//   task       come for a while, by an empty update.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/mtbs.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/spawn_link.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/launch_filter.h"

namespace carillon::gpud::cuda {

class PagodaLauncher final : public Launcher,
                             private Gpu::ContextUser,
                             private Gpu::PersistentWork {
 public:
  // Errors: those of the driver; Unimplemented (a GPU whose SMs hold no MTB).
  static absl::StatusOr<std::unique_ptr<PagodaLauncher>> Create(Gpu* gpu);
  ~PagodaLauncher() override;

  // Errors: CheckTaskKernel()'s; ResourceExhausted (no room for an MTB);
  // Unavailable (the path has given up).
  absl::Status Prepare(EventKernel& event) override;
  void Release(EventKernel& event) override;
  void NotAdded() override;
  // An event whose entry changes its shape to one that no MTB holds fails with
  // kBadKmd.
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  bool Reap() override;
  bool must_poll() const override;
  // Tasks have no priorities.
  bool by_priority() const override { return false; }
  std::vector<PathCounter> counters() const override;

  // The events that `which` names and that have not begun end now, as aborted.
  // Returns when no other one of them is in flight. A task that does not end is
  // stopped after Gpu::longest_kernel(), and so is this wait.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);

 private:
  // The host's words, mapped for the GPU in every context.
  struct Words {
    PagodaControl control;
    PagodaReport report;
  };
  struct Registered {
    uint64_t kernel;
    KernelMetadata kmd;
    uint32_t entries;
  };
  // An event from its doorbell to its end.
  struct Task {
    std::shared_ptr<EventKernel> event;
    shm::Sequence sequence;
    KernelMetadata kmd;
    std::vector<std::byte> args;
    shm::EventLife life{};
    uint64_t kernel = 0;
    // While it is spawned:
    uint32_t entry = 0;
    Nanoseconds spawned_ns = 0;
    Nanoseconds seen_running_ns = 0;  // 0: nobody has seen that it has begun
    bool overdue = false;
  };
  using Tasks = std::list<Task>;

  explicit PagodaLauncher(Gpu* gpu);

  absl::Status Open();
  absl::Status TryToOpen();
  void Close();
  // In a new context.
  absl::Status MakeShared() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeShared() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The MasterKernel, if there is to be one.
  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Begin(uint32_t mtbs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellToLeave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has it leave, and waits. False: the context is lost.
  bool End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSpawner() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteFigures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the MTBs have left, and no copy is under way. False also where the
  // context is lost.
  bool IsIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsLate() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Spawns as many as the table takes. True if it took any.
  bool Spawn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<TaskId> Spawn(Task& task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes note of what has ended: of some tasks, or of all.
  bool Reap(size_t looks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins anew when MTBs are not there, and gives up when that was for nothing.
  // Does not wait for those that leave: it looks again.
  void LookAfterMtbs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Listen(Nanoseconds now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Not empty: why they are not.
  std::string WhyLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginAgain(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks which of the tasks that are there for long have begun.
  void NoteRunning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What has run for longest, and since before `since`; nullptr: nothing.
  Task* Overdue(Nanoseconds since) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether MTBs are there, or their room is held, for nobody.
  bool IsForNobody() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return registered_.empty() && room_ != nullptr;
  }
  void AbortWaiting(const LaunchFilter& which, shm::EventStatus why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAll(Tasks& tasks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Pause() override;
  void Unpause() override;

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  absl::Status Resume() override;
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override;
  bool MarkOverdue(Nanoseconds since) override;
  void EndOverdue(bool marked) override;

  Gpu* const gpu_;
  HostWords<Words> words_;

  mutable Mutex mutex_;
  CondVar ended_some_;
  // In the context.
  MasterKernel master_ ABSL_GUARDED_BY(mutex_);
  Stream stream_ ABSL_GUARDED_BY(mutex_);
  DeviceBytes shared_words_ ABSL_GUARDED_BY(mutex_);
  SpawnLink link_ ABSL_GUARDED_BY(mutex_);

  // Open() was through with it, so that recovery does it again.
  bool prepared_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status begun_
      ABSL_GUARDED_BY(mutex_);  // what became of the last Begin()
  absl::Status given_up_ ABSL_GUARDED_BY(mutex_);  // why; OK: it has not
  Nanoseconds begun_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the MTBs that run were told to leave; 0: they were not.
  Nanoseconds told_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string why_told_ ABSL_GUARDED_BY(mutex_);  // by LookAfterMtbs()
  Nanoseconds looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds noted_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // by NoteRunning()
  // The MTBs' sign of life, and when there was a new one, or nobody listened.
  uint64_t reports_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds heard_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t losses_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_at_loss_ ABSL_GUARDED_BY(mutex_) = 0;

  std::map<const EventKernel*, Registered> registered_ ABSL_GUARDED_BY(mutex_);
  // Held as long as something is registered.
  std::unique_ptr<ResidentRoom::Held> room_ ABSL_GUARDED_BY(mutex_);
  // Of the MasterKernel that runs.
  std::optional<TaskSpawner> spawner_ ABSL_GUARDED_BY(mutex_);
  Tasks waiting_ ABSL_GUARDED_BY(mutex_);  // in the order of their doorbells
  Tasks spawned_ ABSL_GUARDED_BY(mutex_);  // in the order of their copies
  Tasks::iterator next_look_ ABSL_GUARDED_BY(mutex_);  // of spawned_
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;         // by MTBs
  // When the table had no free entry, and how many had ended then; 0: it had.
  Nanoseconds full_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_when_full_ ABSL_GUARDED_BY(mutex_) = 0;

  // By the spawners of MasterKernels that have left.
  uint64_t empty_updates_before_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t copies_back_before_ ABSL_GUARDED_BY(mutex_) = 0;
  // Writers: who holds the lock; readers: whoever shows them. Relaxed: figures.
  std::atomic<uint64_t> tasks_{0};
  std::atomic<uint64_t> empty_updates_{0};
  std::atomic<uint64_t> copies_back_{0};
  std::atomic<uint32_t> mtbs_{0};
  std::atomic<uint64_t> restarts_{0};
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_LAUNCHER_H_
