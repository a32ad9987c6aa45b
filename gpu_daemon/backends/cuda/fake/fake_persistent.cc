#include "gpu_daemon/backends/cuda/fake/fake_persistent.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/edge/persistent_block.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

class Resident : public EdgeThreadGpu {
 public:
  Resident(FakeGpu::State& state, Root& root, const LaunchSpec& launch)
      : state_(state), root_(root), launch_(launch) {
    std::memcpy(&entry_, launch.params.data(), sizeof(entry_));
    const simt::KernelInfo& kernel = *launch.function->kernel;
    kmd_.kernel = &kernel;
    kmd_.grid = {entry_->grid[0], entry_->grid[1], entry_->grid[2]};
    kmd_.block = launch.block;
    kmd_.shared_bytes = launch.shared_bytes - kernel.static_shared_bytes;
    // An event of it, as a fate sees it.
    simt::EventFrame* frame = entry_->entry.Frame(0, 0);
    event_.function = std::make_shared<Function>(*launch.function);
    event_.function->form = Function::Form::kEvent;
    event_.grid = kmd_.grid;
    event_.block = kmd_.block;
    event_.shared_bytes = launch.shared_bytes;
    event_.params.resize(sizeof(frame));
    std::memcpy(event_.params.data(), &frame, sizeof(frame));
  }

  // One block's life; the fault that it ends with.
  CUresult Run(uint32_t block) {
    EdgeThreadPort port(this, 0);
    PersistentBlock<EdgeThreadPort> resident(port, *entry_, block);
    try {
      while (resident.NextTurn()) {
        if (block == 0) {
          if (const CUresult fault = Meet(); fault != CUDA_SUCCESS) {
            return fault;
          }
        }
        simt::EventFrame* frame = entry_->entry.Frame(0, 0);
        for (uint64_t b = block; b < kmd_.blocks(); b += launch_.grid.x) {
          if (!alive()) throw EdgeContextLost();
          RunBlock(kmd_, b, frame->args(), &frame->scratch->fail_status);
        }
        resident.EndTurn();
      }
    } catch (const EdgeContextLost&) {
    }
    return CUDA_SUCCESS;
  }

  LaunchOutcome Launch(uint32_t, uint64_t, uint64_t*) override {
    return LaunchOutcome::kError;
  }
  bool Relaunch(uint32_t, uint64_t*) override { return false; }
  void RunInline(const EdgeEntry&, const std::byte*, uint32_t*) override {}
  void Trap() override {}
  bool alive() const override {
    return !root_.stopped.load(std::memory_order_relaxed);
  }
  const void* HostMemory(const void* address) const override {
    return state_.HostMemory(address);
  }

 private:
  CUresult Meet() {
    KernelCall::Impl impl{state_, root_, event_, nullptr};
    const KernelCall call(&impl);
    // Some may have come since the launch.
    std::vector<Fate> fates;
    {
      std::lock_guard lock(state_.mutex);
      fates = state_.FatesOf(*launch_.function);
    }
    for (const Fate& fate : fates) {
      if (!fate.when(call)) continue;
      if (fate.fault != CUDA_SUCCESS) return fate.fault;
      Lock lock(state_.mutex);
      state_.changed.wait(lock, [this] { return !alive(); });
      throw EdgeContextLost();
    }
    return CUDA_SUCCESS;
  }

  FakeGpu::State& state_;
  Root& root_;
  const LaunchSpec& launch_;
  PersistentEntry* entry_ = nullptr;
  KernelMetadata kmd_;
  LaunchSpec event_;
};

}  // namespace

CUresult RunPersistentForm(FakeGpu::State& state, Root& root,
                           const LaunchSpec& launch) {
  PersistentEntry* entry = nullptr;
  std::memcpy(&entry, launch.params.data(), sizeof(entry));
  if (!state.IsDeviceMemory(root, entry, sizeof(*entry)) ||
      launch.grid.x != entry->blocks ||
      launch.shared_bytes < launch.function->kernel->static_shared_bytes) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  Resident resident(state, root, launch);
  std::vector<std::thread> others;
  for (uint32_t block = 1; block < launch.grid.x; ++block) {
    others.emplace_back([&resident, block] { resident.Run(block); });
  }
  const CUresult result = resident.Run(0);
  if (result != CUDA_SUCCESS) {
    // So that the others end, too.
    std::lock_guard lock(state.mutex);
    state.Fault(root, result);
  }
  for (std::thread& other : others) other.join();
  return result;
}

}  // namespace carillon::gpud::cuda
