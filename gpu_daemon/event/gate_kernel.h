// A kernel for tests of scheduling: its blocks say that they run, and wait
// until they are let go on.
#ifndef CARILLON_GPU_DAEMON_EVENT_GATE_KERNEL_H_
#define CARILLON_GPU_DAEMON_EVENT_GATE_KERNEL_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

class Gate {
 public:
  // Called by a block: notes `tag`, then waits for a pass.
  void Enter(uint64_t tag) {
    MutexLock lock(mutex_);
    entered_.push_back(tag);
    ++inside_;
    changed_.NotifyAll();
    while (passes_ == 0) changed_.Wait(mutex_);
    --passes_;
    --inside_;
  }
  void LetPass(uint64_t blocks) {
    MutexLock lock(mutex_);
    passes_ += blocks;
    changed_.NotifyAll();
  }
  // Waits (bounded) until `count` blocks have entered in all.
  bool WaitEntered(size_t count) {
    MutexLock lock(mutex_);
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (entered_.size() < count) {
      if (!changed_.WaitUntil(mutex_, until)) return false;
    }
    return true;
  }
  std::vector<uint64_t> entered() {
    MutexLock lock(mutex_);
    return entered_;
  }
  uint64_t inside() {
    MutexLock lock(mutex_);
    return inside_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<uint64_t> entered_ ABSL_GUARDED_BY(mutex_);
  uint64_t passes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct GateArgs {
  uint64_t gate;  // a Gate*
  uint64_t tag;
};

inline constexpr simt::ParamInfo kGateParams[] = {
    CARILLON_PARAM(GateArgs, gate, "which gate"),
    CARILLON_PARAM(GateArgs, tag, "what to note")};

inline constexpr simt::KernelInfo kGateKernel = {
    .name = "gate",
    .summary = "waits to be let through",
    .params = kGateParams,
    .args_size = sizeof(GateArgs),
    .args_align = alignof(GateArgs),
    .run_block =
        [](const simt::BlockLaunch&, const void* args) {
          const auto* gate = static_cast<const GateArgs*>(args);
          reinterpret_cast<Gate*>(gate->gate)->Enter(gate->tag);
        },
    .registers_per_thread = 16,
    .static_shared_bytes = 0,
    .uses_barriers = false,
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_GATE_KERNEL_H_
