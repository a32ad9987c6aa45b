// Graphs: run by a stream, or launched by the kernels of other graphs.
#include <algorithm>
#include <deque>
#include <thread>

#include "gpu_daemon/backends/cuda/fake/fake_state.h"

namespace carillon::gpud::cuda {
namespace {

// Of what kernels launch, as no stream has a priority for it: the lowest.
constexpr int kDeviceLaunchPriority = 0;

}  // namespace

void FakeGpu::State::RunGraph(const RootPtr& root, const ExecPtr& exec,
                              int priority, Stream* stream) {
  // What is still to run, in order: a tail launch's own come before later ones.
  std::deque<ExecPtr> chain = {exec};
  bool relaunch = false;
  while (!chain.empty()) {
    auto execution = std::make_shared<Execution>();
    execution->exec = chain.front();
    chain.pop_front();
    std::vector<GraphNode> nodes;
    std::chrono::microseconds gap{0};
    {
      std::lock_guard lock(mutex);
      nodes = execution->exec->nodes;
      if (stream != nullptr) stream->relaunched = relaunch;
      if (relaunch) gap = settings.relaunch_gap;
    }
    if (gap.count() != 0) std::this_thread::sleep_for(gap);
    for (GraphNode& node : nodes) {
      if (!execution->exec->node_priorities) {
        node.launch.place.priority =
            relaunch ? kDeviceLaunchPriority : priority;
      }
      Run(*root, node.launch, execution.get());
    }
    Lock lock(mutex);
    const std::chrono::microseconds retire = settings.retire_delay;
    if (retire.count() != 0) {
      lock.unlock();
      std::this_thread::sleep_for(retire);
      lock.lock();
    }
    // A graph ends with all that it launched: only then its tails start.
    changed.wait(lock, [&] { return execution->running == 0; });
    const bool again = std::ranges::find(execution->tails, execution->exec) !=
                       execution->tails.end();
    if (!again) execution->exec->busy = false;
    chain.insert(chain.begin(), execution->tails.begin(),
                 execution->tails.end());
    changed.notify_all();
    relaunch = true;
    if (stream != nullptr) stream->relaunched = !chain.empty();
  }
}

CUresult FakeGpu::State::LaunchFromKernel(Root& root, Execution* execution,
                                          uint64_t handle, DeviceLaunch mode) {
  std::lock_guard lock(mutex);
  const auto found = execs.find(handle);
  if (execution == nullptr || found == execs.end() ||
      root.stopped.load(std::memory_order_relaxed)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const ExecPtr exec = found->second;
  if (exec->root.get() != &root || !exec->device_launch) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // An H200: a green context's graph launches those of the same one only.
  if (exec->sms() != execution->exec->sms()) return CUDA_ERROR_INVALID_VALUE;
  if (!exec->uploaded) return CUDA_ERROR_INVALID_HANDLE;
  if (mode == DeviceLaunch::kTail) {
    if (settings.refused_tails != 0) {
      --settings.refused_tails;
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    const bool itself = exec == execution->exec;
    const bool pending =
        std::ranges::find(execution->tails, exec) != execution->tails.end();
    if (execution->tails.size() >= 255 || (itself ? pending : exec->busy)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    exec->busy = true;
    execution->tails.push_back(exec);
    return CUDA_SUCCESS;
  }
  if (exec->busy || execution->launches >= settings.launch_budget) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  exec->busy = true;
  ++execution->launches;
  ++execution->running;
  PushLaunch(exec->root, [this, exec, execution] {
    RunGraph(exec->root, exec, kDeviceLaunchPriority, nullptr);
    std::lock_guard lock(mutex);
    --execution->running;
    changed.notify_all();
  });
  return CUDA_SUCCESS;
}

}  // namespace carillon::gpud::cuda
