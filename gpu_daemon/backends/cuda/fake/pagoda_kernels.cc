// The MasterKernels of launch paths `pagoda` and `pagoda_ring` on the fake GPU: their
// own code, each warp a thread. Approximated: a block runs whole in the thread of the warp that
// comes first, and its other warps hold their executors until it has ended.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_executor.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/spawned_tasks.h"
#include "gpu_daemon/backends/cuda/pagoda/task_kernels.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/registry.h"

namespace carillon::gpud::cuda {
namespace {

class MasterGpu : public EdgeThreadGpu {
 public:
  explicit MasterGpu(KernelCall* call) : call_(call) {}

  LaunchOutcome Launch(uint32_t, uint64_t, uint64_t*) override {
    return LaunchOutcome::kError;
  }
  bool Relaunch(uint32_t, uint64_t*) override { return false; }
  void RunInline(const EdgeEntry&, const std::byte*, uint32_t*) override {}
  // Others of its warps may never end.
  void Trap() override { call_->Fault(CUDA_ERROR_LAUNCH_FAILED); }
  bool alive() const override { return !call_->stopped(); }
  const void* HostMemory(const void* address) const override {
    return call_->HostMemory(address);
  }

  void RunBlock(const TaskEntry& task, const std::byte* args, RingTask& record,
                uint64_t block) {
    KernelMetadata kmd;
    kmd.kernel = simt::FindKernel(kTaskKernelNames[task.kernel]);
    kmd.grid = record.grid;
    kmd.block = record.block;
    kmd.shared_bytes = record.shared_bytes - kmd.kernel->static_shared_bytes;
    // An event of it, as a fate sees it.
    const CUresult met =
        block == 0 ? call_->Meet(*kmd.kernel, args) : CUDA_SUCCESS;
    if (met != CUDA_SUCCESS) {
      if (!call_->stopped()) call_->Fault(met);
      throw EdgeContextLost();
    }
    gpud::RunBlock(kmd, block, args, &record.fail_status);
  }

  // The same, by each of its `warps` warps, which end together.
  void RunBlock(const TaskEntry& task, const std::byte* args, RingTask& record,
                uint64_t block, uint32_t warps) {
    if (warps == 1) return RunBlock(task, args, record, block);
    std::unique_lock lock(mutex_);
    const auto [running, first] = running_.try_emplace({&record, block});
    if (first) {
      lock.unlock();
      RunBlock(task, args, record, block);
      lock.lock();
      running->second.ended = true;
      changed_.notify_all();
    }
    while (!running->second.ended) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (!alive()) throw EdgeContextLost();
    }
    if (++running->second.left == warps) running_.erase(running);
  }

 private:
  struct Running {
    bool ended = false;
    uint32_t left = 0;  // warps
  };
  KernelCall* const call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<const RingTask*, uint64_t>, Running> running_;
};

// What the Ports of both have.
class MasterPort : public EdgeThreadPort {
 public:
  MasterPort(MasterGpu* gpu, const PagodaRingTable* table, uint32_t column,
             uint32_t warp)
      : EdgeThreadPort(gpu, 0),
        gpu_(gpu),
        table_(*table),
        column_(column),
        schedules_(warp == 0) {}

  // Acquire, as TSan knows no fences.
  TaskState PollState(const TaskState* state) {
    return std::atomic_ref<TaskState>(*const_cast<TaskState*>(state))
        .load(std::memory_order_acquire);
  }
  bool SkipsTask(const TaskEntry&) { return false; }
  // A core has many warps to play: executors without work sleep the longer the
  // longer, or 31 an MTB that look would leave no time for anything else.
  void Pause(uint32_t round) {
    EdgeThreadPort::Pause(round);
    if (round <= 64) return;
    const uint32_t doublings =
        schedules_ ? 0u : std::min((round - 64) / 16, 6u);
    std::this_thread::sleep_for(std::chrono::microseconds(20 << doublings));
  }

 protected:
  MasterGpu* const gpu_;
  const PagodaRingTable& table_;
  const uint32_t column_;
  const bool schedules_;
};

class RingPort : public MasterPort {
 public:
  using MasterPort::MasterPort;

  uint64_t SwapDevice64(uint64_t* word, uint64_t from, uint64_t to) {
    std::atomic_ref(*word).compare_exchange_strong(from, to,
                                                   std::memory_order_acq_rel);
    return from;
  }
  void RunTask(const TaskEntry& task, const TaskWarp& warp) {
    gpu_->RunBlock(task, task.args, RecordOf(task), warp.block,
                   TaskWarps(task.threads));
  }
  void EndTask(const TaskEntry& task) { EndRingTask(*this, RecordOf(task)); }

 private:
  RingTask& RecordOf(const TaskEntry& task) const {
    return table_.records[&task - table_.tasks.entries];
  }
};

class SpawnedPort : public MasterPort {
 public:
  using MasterPort::MasterPort;

  void RunTask(const TaskEntry& task, const TaskWarp& warp) {
    gpu_->RunBlock(task, SpawnedArgs(task), SpawnedRecord(task), warp.block,
                   TaskWarps(task.threads));
  }
  void EndTask(const TaskEntry& task) {
    EndRingTask(*this, SpawnedRecord(task));
  }
  void Pause(uint32_t round) {
    if (schedules_ && column_ == 0 && round % 16 == 0) {
      PassCommandOn(*this, table_);
    }
    MasterPort::Pause(round);
  }
};

void Schedule(RingPort& port, const PagodaRingTable& table, MtbBlock& block,
              uint32_t column) {
  alignas(16) std::byte copy[kPagodaEntryBytes];
  PagodaRingScheduler<RingPort>(port, table, block, copy, column).Run();
}
void Schedule(SpawnedPort& port, const PagodaRingTable& table, MtbBlock& block,
              uint32_t column) {
  ScheduleSpawned(port, table, block, column);
}

template <class Port>
void RunWarp(MasterGpu& gpu, const PagodaRingTable& table, MtbBlock& block,
             uint32_t column, uint32_t warp) {
  Port port(&gpu, &table, column, warp);
  try {
    if (warp == 0) {
      Schedule(port, table, block, column);
    } else {
      MtbExecutor<Port>(port, table.tasks, block, column, warp - 1).Run();
    }
  } catch (const EdgeContextLost&) {
  }
}

template <class Port>
CUresult RunMaster(KernelCall& call) {
  const auto table = call.param<PagodaRingTable>(0);
  if (call.grid().x != table.tasks.columns ||
      call.block().x != (1 + table.tasks.executors) * simt::kWarpSize) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  MasterGpu gpu(&call);
  std::vector<std::unique_ptr<MtbBlock>> blocks;
  std::vector<std::thread> warps;
  for (uint32_t column = 0; column < table.tasks.columns; ++column) {
    blocks.push_back(std::make_unique<MtbBlock>());
    for (uint32_t warp = 0; warp <= table.tasks.executors; ++warp) {
      warps.emplace_back(
          [&gpu, &table, block = blocks.back().get(), column, warp] {
            RunWarp<Port>(gpu, table, *block, column, warp);
          });
    }
  }
  for (std::thread& warp : warps) warp.join();
  return CUDA_SUCCESS;
}

const FakeKernelRegistration kRingMaster("carillon_pagoda_ring",
                                         {sizeof(PagodaRingTable)},
                                         RunMaster<RingPort>);
const FakeKernelRegistration kSpawnedMaster("carillon_pagoda",
                                            {sizeof(PagodaRingTable)},
                                            RunMaster<SpawnedPort>);

}  // namespace
}  // namespace carillon::gpud::cuda
