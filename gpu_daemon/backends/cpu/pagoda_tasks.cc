#include "gpu_daemon/backends/cpu/pagoda_tasks.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {

using shm::EventState;
using shm::EventStatus;

absl::Status CheckPagodaTask(const KernelMetadata& kmd) {
  const simt::KernelInfo& kernel = *kmd.kernel;
  const auto refused = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' cannot be a task of an MTB: {}", kernel.name, why));
  };
  if (kernel.is_users()) {
    return refused(
        "it is a user's own, and an MTB calls functions of gpud's; use another "
        "path");
  }
  if (kernel.unbounded) {
    return refused(
        "it runs for as long as its arguments say, and nothing could take its "
        "executors back; use another path");
  }
  const absl::Status status =
      CheckTask({.blocks = static_cast<uint32_t>(
                     std::min<uint64_t>(kmd.blocks(), kTaskMaxBlocks + 1)),
                 .threads = kmd.threads(),
                 .shared_bytes = kmd.total_shared(),
                 .sync = kernel.uses_barriers},
                kernel.args_size, kTaskMaxExecutors);
  return status.ok() ? status : refused(std::string(status.message()));
}

PagodaTask* PagodaTasks::Add(std::unique_ptr<KernelLaunch> launch) {
  launch->run = LaunchRun(*launch->memory);
  MutexLock lock(mutex_);
  PagodaTask& task = tasks_.emplace_back();
  task.launch = std::move(launch);
  task.waits_since_ns = NowNs();
  task.place = std::prev(tasks_.end());
  return &task;
}

bool PagodaTasks::BeginBlock(PagodaTask* task) {
  MutexLock lock(mutex_);
  KernelLaunch& launch = *task->launch;
  if (launch.cancelled) return false;
  task->waits_since_ns = NowNs();
  if (launch.next_block++ == 0) {
    launch.life.dispatched_ns = task->waits_since_ns;
  }
  ++running_;
  return true;
}

void PagodaTasks::EndBlock(PagodaTask* task, bool ran) {
  std::list<PagodaTask> gone;
  std::optional<Ending> ending;
  {
    MutexLock lock(mutex_);
    KernelLaunch& launch = *task->launch;
    if (ran) {
      ++launch.ended_blocks;
      --running_;
    } else {
      ++task->skipped_blocks;
    }
    const uint64_t blocks = launch.kmd.blocks();
    const bool cut_short = launch.cancelled && launch.next_block < blocks;
    if (!task->told &&
        launch.ended_blocks == (cut_short ? launch.next_block : blocks)) {
      // The blocks of other executors ended under the lock before this one did.
      const uint32_t fail = std::atomic_ref<uint32_t>(launch.run.fail_status)
                                .load(std::memory_order_relaxed);
      if (cut_short) {
        ending = Aborted(*task, *launch.cancelled);
      } else if (fail != 0) {
        ending =
            EndOf(*task, EventState::kFailed, simt::CompletionStatus(fail));
      } else {
        ending = EndOf(*task, EventState::kDone, 0);
      }
    }
    if (launch.ended_blocks + task->skipped_blocks == blocks) {
      gone.splice(gone.end(), tasks_, task->place);
    }
  }
  if (ending) Tell(*ending);
}

void PagodaTasks::Cancel(const LaunchFilter& which, EventStatus why) {
  std::vector<Ending> endings;
  {
    MutexLock lock(mutex_);
    for (PagodaTask& task : tasks_) {
      KernelLaunch& launch = *task.launch;
      if (!which.Matches(launch) || launch.cancelled) continue;
      // All blocks run already: it ends as it ends.
      if (launch.next_block == launch.kmd.blocks()) continue;
      launch.cancelled = why;
      if (launch.next_block == launch.ended_blocks) {
        endings.push_back(Aborted(task, why));
      }
    }
  }
  for (const Ending& ending : endings) Tell(ending);
}

bool PagodaTasks::cancelled(const PagodaTask* task) const {
  MutexLock lock(mutex_);
  return task->launch->cancelled.has_value();
}

void PagodaTasks::Drop(PagodaTask* task) {
  std::list<PagodaTask> gone;
  MutexLock lock(mutex_);
  gone.splice(gone.end(), tasks_, task->place);
}

bool PagodaTasks::idle() const {
  MutexLock lock(mutex_);
  return tasks_.empty();
}

uint32_t PagodaTasks::running_blocks() const {
  MutexLock lock(mutex_);
  return running_;
}

std::vector<LaunchProgress> PagodaTasks::launches() const {
  std::vector<LaunchProgress> all;
  MutexLock lock(mutex_);
  const Nanoseconds now = NowNs();
  for (const PagodaTask& task : tasks_) {
    if (task.told) continue;
    all.push_back(ProgressOf(*task.launch));
    if (!task.launch->has_blocks()) continue;
    all.back().wait_ns = now - task.waits_since_ns;
  }
  return all;
}

PagodaTasks::Ending PagodaTasks::EndOf(PagodaTask& task, EventState state,
                                       uint32_t status) {
  task.told = true;
  KernelLaunch& launch = *task.launch;
  launch.life.finished_ns = NowNs();
  // Its entry may stay in the table for long, behind tasks of others: its device's
  // memory must not.
  launch.memory.reset();
  return {std::move(launch.event), launch.sequence, launch.life, state, status};
}

PagodaTasks::Ending PagodaTasks::Aborted(PagodaTask& task, EventStatus why) {
  return EndOf(task, EventState::kAborted, static_cast<uint32_t>(why));
}

void PagodaTasks::Tell(const Ending& ending) {
  const bool traced = ending.life.seen_ns != 0;
  if (ending.event->End(ending.sequence,
                        {.state = ending.state,
                         .status = ending.status,
                         .life = traced ? &ending.life : nullptr})) {
    ending.event->memory().bell().Signal();
  }
}

}  // namespace carillon::gpud
