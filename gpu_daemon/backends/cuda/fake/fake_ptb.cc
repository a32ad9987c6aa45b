#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"

namespace carillon::gpud::cuda {

bool RunPtb(const simt::BlockSupply& supply, uint32_t threads,
            const std::function<bool(uint64_t block)>& run) {
  const uint64_t blocks = supply.grid.count();
  std::atomic<bool> stopped{false};
  const auto take = [&] {
    // The orders are the GPU's: relaxed.
    while (!stopped.load(std::memory_order_relaxed) &&
           std::atomic_ref(const_cast<uint32_t&>(*supply.stop))
                   .load(std::memory_order_relaxed) == 0) {
      const uint64_t block =
          supply.first + std::atomic_ref(supply.taken->taken)
                             .fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks) return;
      if (!run(block)) stopped.store(true, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < threads; ++i) others.emplace_back(take);
  take();
  for (std::thread& other : others) other.join();
  return !stopped.load(std::memory_order_relaxed);
}

void EndPtb(const simt::EventFrame& frame, const simt::BlockSupply& supply) {
  const uint64_t taken = std::atomic_ref(supply.taken->taken)
                             .exchange(0, std::memory_order_relaxed);
  std::atomic_ref(*supply.ended)
      .store(std::min(supply.first + taken, supply.grid.count()),
             std::memory_order_relaxed);
  CompleteEvent(frame);
}

}  // namespace carillon::gpud::cuda
