// A kernel for tests of scheduling: its blocks say that they run, and wait
// until they are let go on.
#ifndef CARILLON_GPU_DAEMON_EVENT_GATE_KERNEL_H_
#define CARILLON_GPU_DAEMON_EVENT_GATE_KERNEL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

class Gate {
 public:
  // Called by a block: notes `tag`, then waits for a pass.
  void Enter(uint64_t tag) {
    std::unique_lock lock(mutex_);
    entered_.push_back(tag);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return passes_ > 0; });
    --passes_;
    --inside_;
  }
  void LetPass(uint64_t blocks) {
    std::lock_guard lock(mutex_);
    passes_ += blocks;
    changed_.notify_all();
  }
  // Waits (bounded) until `count` blocks have entered in all.
  bool WaitEntered(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10),
                             [&] { return entered_.size() >= count; });
  }
  std::vector<uint64_t> entered() {
    std::lock_guard lock(mutex_);
    return entered_;
  }
  uint64_t inside() {
    std::lock_guard lock(mutex_);
    return inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> entered_;
  uint64_t passes_ = 0;
  uint64_t inside_ = 0;
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
