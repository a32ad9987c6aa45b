#include "gpu_daemon/backends/cpu/pagoda_mtbs.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "gpu_daemon/backends/cuda/pagoda/mtb_executor.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_scheduler.h"
#include "shm/waiting.h"

namespace carillon::gpud {
namespace {

// Of a warp that finds nothing to do, before it sleeps.
constexpr uint32_t kRoundsAwake = 64;
// A sleeping warp looks around this often whatever happens.
constexpr std::chrono::milliseconds kLongestSleep{500};
// As the KMU's workers: blocks are long compared with what others do on a core.
constexpr int kExecutorNice = 5;

uint32_t Columns(PagodaMtbs::Scheduling scheduling, uint32_t executors) {
  if (scheduling == PagodaMtbs::Scheduling::kLauncher) return 1;
  return (executors + kTaskMaxExecutors - 1) / kTaskMaxExecutors;
}

}  // namespace

void WarpAlarm::WakeAll() {
  shm::FutexWakeAll(reinterpret_cast<const uint32_t*>(&changes_));
}

void WarpAlarm::Sleep(uint32_t seen, std::chrono::nanoseconds longest) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const shm::FutexWord word{reinterpret_cast<const uint32_t*>(&changes_), seen};
  shm::FutexWait({&word, 1}, longest);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void PagodaMtbPort::StoreBlock(uint32_t* word, uint32_t value) {
  EdgeThreadPort::StoreBlock(word, value);
  MtbBlock& block = mtb_->block;
  if (word == &block.leave) {
    for (WarpAlarm& executor : mtb_->executors) executor.Ring();
    return;
  }
  const auto offset =
      static_cast<size_t>(reinterpret_cast<std::byte*>(word) -
                          reinterpret_cast<std::byte*>(block.warps));
  if (offset >= sizeof(block.warps)) return;
  // An `exec`: nothing else of a slot is stored so.
  if (value != 0) {
    mtb_->executors[offset / sizeof(WarpSlot)].Ring();
  } else {
    mtb_->scheduler.Ring();
  }
}

void PagodaMtbPort::RunTask(const TaskEntry& entry, const TaskWarp& warp) {
  auto* const task = reinterpret_cast<PagodaTask*>(entry.kernel);
  const bool runs = tasks_->BeginBlock(task);
  if (runs) {
    KernelLaunch& launch = *task->launch;
    runner_->Run(launch.kmd, warp.block, entry.args, &launch.run);
  }
  tasks_->EndBlock(task, runs);
}

bool PagodaMtbPort::SkipsTask(const TaskEntry& entry) {
  return tasks_->cancelled(reinterpret_cast<PagodaTask*>(entry.kernel));
}

void PagodaMtbPort::Pause(uint32_t round) {
  if (round < kRoundsAwake) {
    sched_yield();
  } else {
    alarm_->Sleep(seen_, kLongestSleep);
  }
  // What is written from now on ends the next sleep; what was written before is
  // seen by the look in between.
  seen_ = alarm_->changes();
}

PagodaMtbs::PagodaMtbs(Scheduling scheduling, uint32_t executors,
                       BlockRunner* runner)
    : scheduling_(scheduling),
      runner_(runner),
      entries_(Columns(scheduling, executors) * kTaskMaxRows),
      mtbs_(Columns(scheduling, executors)),
      table_{.entries = entries_.data(),
             .command = &command_,
             .columns = static_cast<uint32_t>(mtbs_.size()),
             .rows = kTaskMaxRows,
             .executors = std::min<uint32_t>(
                 (executors + mtbs_.size() - 1) / mtbs_.size(),
                 kTaskMaxExecutors)} {
  for (auto& mtb : mtbs_) mtb = std::make_unique<PagodaMtb>();
}

PagodaMtbs::~PagodaMtbs() {
  Leave();
  Join();
}

void PagodaMtbs::AddThread(const char* name, std::function<void()> run) {
  threads_.emplace_back([name, run = std::move(run)] {
    pthread_setname_np(pthread_self(), name);
    // Of this thread; harmless if refused.
    setpriority(PRIO_PROCESS, 0, kExecutorNice);
    run();
  });
}

void PagodaMtbs::Start() {
  for (uint32_t column = 0; column < table_.columns; ++column) {
    PagodaMtb* const mtb = mtbs_[column].get();
    if (scheduling_ == Scheduling::kThreads) {
      AddThread("gpud-mtb-sched", [this, mtb, column] {
        PagodaMtbPort port = SchedulerPort(column);
        MtbScheduler(port, table_, mtb->block, column).Run();
      });
    }
    for (uint32_t i = 0; i < table_.executors; ++i) {
      AddThread("gpud-mtb-exec", [this, mtb, column, i] {
        PagodaMtbPort port = PortOf(column, &mtb->executors[i]);
        MtbExecutor(port, table_, mtb->block, column, i).Run();
      });
    }
  }
}

void PagodaMtbs::Leave() {
  std::atomic_ref(command_).store(static_cast<uint32_t>(TaskCommand::kLeave),
                                  std::memory_order_release);
  for (auto& mtb : mtbs_) {
    mtb->scheduler.Ring();
  }
  // Its launcher's thread has ended.
  if (scheduling_ == Scheduling::kLauncher) {
    SchedulerPort(0).StoreBlock(&mtbs_[0]->block.leave, 1);
  }
}

void PagodaMtbs::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

TaskEntry PagodaMtbs::EntryOf(PagodaTask* task) {
  const KernelLaunch& launch = *task->launch;
  const KernelMetadata& kmd = launch.kmd;
  TaskEntry entry = {};
  entry.state = TaskState::kReleased;
  entry.kernel = reinterpret_cast<uint64_t>(task);
  entry.blocks = static_cast<uint32_t>(kmd.blocks());
  entry.threads = simt::kWarpSize;  // an executor is a whole block
  entry.shared_bytes = kmd.total_shared();
  entry.args_bytes = kmd.kernel->args_size;
  std::memcpy(entry.args, launch.args.get(), entry.args_bytes);
  return entry;
}

absl::Status PagodaMtbs::CopyEntry(uint32_t entry, const TaskEntry& from) {
  return StoreEntry(entry, from);
}

absl::Status PagodaMtbs::CopyState(uint32_t entry, TaskState state) {
  std::atomic_ref(entries_[entry].state)
      .store(state, std::memory_order_release);
  mtbs_[entry / table_.rows]->scheduler.Ring();
  return absl::OkStatus();
}

absl::Status PagodaMtbs::StoreEntry(uint32_t entry, const TaskEntry& from) {
  constexpr size_t kState = sizeof(TaskState);
  std::memcpy(reinterpret_cast<std::byte*>(&entries_[entry]) + kState,
              reinterpret_cast<const std::byte*>(&from) + kState,
              sizeof(from) - kState);
  return CopyState(entry, from.state);
}

absl::Status PagodaMtbs::CopyBack(uint32_t first, std::span<TaskState> states) {
  for (size_t i = 0; i < states.size(); ++i) {
    states[i] = std::atomic_ref(entries_[first + i].state)
                    .load(std::memory_order_acquire);
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
