#include "tools/bench/narrow/on_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/narrow/order.h"

namespace carillon::bench {

absl::StatusOr<NarrowOutcome> RunByThreads(const NarrowWorkload& workload,
                                           uint32_t threads) {
  std::vector<std::byte> memory(workload.initial().begin(),
                                workload.initial().end());
  NarrowOrder order(workload);
  NarrowOutcome outcome;
  outcome.tasks.resize(workload.tasks().size());
  absl::Status error;
  std::mutex mutex;  // guards the three above
  std::condition_variable changed;
  const Nanoseconds begun = NowNs();
  const auto work = [&] {
    std::vector<std::byte> shared;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return order.may_begin() || order.all_begun() || !error.ok();
      });
      if (order.all_begun() || !error.ok()) return;
      const size_t index = order.Next();
      const NarrowUnit& task = workload.tasks()[index];
      lock.unlock();
      const auto arguments = NarrowWorkload::ArgumentsOf(
          task, reinterpret_cast<uint64_t>(memory.data()));
      shared.resize(task.kernel->static_shared_bytes);
      uint32_t status = 0;
      task.kernel->run_block(
          {.grid = {1, 1, 1},
           .block = {task.threads, 1, 1},
           .block_index = {0, 0, 0},
           .shared_bytes = static_cast<uint32_t>(shared.size()),
           .shared = shared.data(),
           .fail_status = &status},
          arguments.data());
      lock.lock();
      outcome.tasks[index].ended_ns = NowNs() - begun;
      if (status != 0) {
        error.Update(absl::InternalError(
            fmt::format("{}: task {} ({}) failed with status {}",
                        workload.name(), index, task.kernel->name, status)));
      }
      order.Ended(index);
      changed.notify_all();
    }
  };
  std::vector<std::thread> pool;
  for (uint32_t i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  RETURN_IF_ERROR(error);
  RETURN_IF_ERROR(workload.Check(memory));
  // A task is there for a thread to take as soon as it may begin.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> ends;  // by group and phase
  for (size_t i = 0; i < outcome.tasks.size(); ++i) {
    const NarrowUnit& task = workload.tasks()[i];
    uint64_t& end = ends[{task.group, task.phase}];
    end = std::max(end, outcome.tasks[i].ended_ns);
  }
  for (size_t i = 0; i < outcome.tasks.size(); ++i) {
    const NarrowUnit& task = workload.tasks()[i];
    const auto own = ends.find({task.group, task.phase});
    if (own == ends.begin()) continue;
    const auto before = std::prev(own);
    if (before->first.first != task.group) continue;
    outcome.tasks[i].begun_ns = before->second;
  }
  return outcome;
}

}  // namespace carillon::bench
