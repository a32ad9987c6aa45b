#include "gpu_daemon/backends/cpu/pagoda_launcher.h"

#include <chrono>
#include <span>
#include <utility>

#include "gpu_daemon/dispatch/make_launch.h"

namespace carillon::gpud {
namespace {

// A front-end that waits for executors looks at doorbells this often.
constexpr std::chrono::microseconds kLongestBlocked{100};

void AddOne(std::atomic<uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1,
                std::memory_order_relaxed);
}

}  // namespace

TaskQueueLauncher::TaskQueueLauncher(Kmu* kmu, PagodaMtbs* mtbs)
    : kmu_(kmu), mtbs_(*mtbs) {
  mtbs_.Start();
}

absl::Status TaskQueueLauncher::Prepare(EventKernel& event) {
  return CheckPagodaTask(event.kmd());
}

bool TaskQueueLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                               shm::Sequence sequence, CheckedEntry& entry) {
  auto launch = MakeLaunch(event, sequence, entry);
  if (event->modifyable() && !CheckPagodaTask(entry.kmd).ok()) {
    AddOne(kernels_);
    kmu_->Submit(std::move(launch));
    return false;
  }
  AddOne(tasks_);
  waiting_.push_back(mtbs_.tasks().Add(std::move(launch)));
  GiveOut();
  return false;
}

bool TaskQueueLauncher::Reap() {
  WarpAlarm& alarm = mtbs_.mtb(0).scheduler;
  const uint32_t seen = alarm.changes();
  if (GiveOut()) return true;
  if (must_poll()) alarm.Sleep(seen, kLongestBlocked);
  return false;
}

std::vector<PathCounter> TaskQueueLauncher::counters() const {
  return {{"tasks", tasks_.load(std::memory_order_relaxed)},
          {"kernels", kernels_.load(std::memory_order_relaxed)}};
}

PagodaTask* TaskQueueLauncher::Oldest() {
  while (!waiting_.empty()) {
    PagodaTask* const task = waiting_.front();
    if (!mtbs_.tasks().cancelled(task)) return task;
    mtbs_.tasks().Drop(task);
    waiting_.pop_front();
  }
  return nullptr;
}

void TaskQueueLauncher::TakeOldest() { waiting_.pop_front(); }

// Doorbells do not wait while the table is full; events do.
PagodaLauncher::PagodaLauncher(Kmu* kmu, PagodaMtbs* mtbs)
    : TaskQueueLauncher(kmu, mtbs),
      spawner_(mtbs, mtbs->table().columns, mtbs->table().rows,
               mtbs->table().executors, {.longest_full = 0}) {}

bool PagodaLauncher::GiveOut() {
  bool spawned = false;
  while (PagodaTask* const task = Oldest()) {
    const TaskEntry entry = PagodaMtbs::EntryOf(task);
    const auto id =
        spawner_.Spawn({.blocks = entry.blocks,
                        .threads = entry.threads,
                        .shared_bytes = entry.shared_bytes},
                       entry.kernel, std::span(entry.args, entry.args_bytes));
    if (!id.ok()) break;  // the table is full: nothing else can be
    // Its last block tells the device.
    spawner_.Forget(*id);
    TakeOldest();
    spawned = true;
  }
  return spawned;
}

}  // namespace carillon::gpud
