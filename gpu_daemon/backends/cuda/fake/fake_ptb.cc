#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"

namespace carillon::gpud::cuda {
namespace {

// Step for step what ptb_kernel.cuh does. The orders are the GPU's: relaxed.
constexpr auto kRelaxed = std::memory_order_relaxed;

// A launch's resident blocks.
class Residents {
 public:
  Residents(const simt::BlockSupply& supply,
            const std::function<bool(uint64_t block)>& run)
      : supply_(supply), run_(run) {}

  // One of them, from its coming to its leaving.
  void Live() {
    const uint32_t rank = Arrived().fetch_add(1, kRelaxed);
    if (rank == 1) return WatchStop();
    while (const auto block = Take(rank)) {
      if (!run_(*block)) gpu_stops_.store(true, kRelaxed);
    }
  }
  bool gpu_stops() const { return gpu_stops_.load(kRelaxed); }

 private:
  std::atomic_ref<uint32_t> Arrived() const {
    return std::atomic_ref(supply_.taken->arrived);
  }
  std::atomic_ref<uint64_t> Taken() const {
    return std::atomic_ref(supply_.taken->taken);
  }
  bool HostWantsThemToLeave() const {
    return std::atomic_ref(const_cast<uint32_t&>(*supply_.stop))
               .load(kRelaxed) != 0;
  }

  void WatchStop() const {
    while (!HostWantsThemToLeave()) {
      if (gpu_stops() ||
          supply_.first + Taken().load(kRelaxed) >= supply_.grid.count()) {
        return;
      }
      std::this_thread::yield();
    }
    const uint64_t taken = Taken().exchange(supply_.grid.count(), kRelaxed);
    std::atomic_ref(supply_.taken->stopped).store(taken + 1, kRelaxed);
  }

  std::optional<uint64_t> Take(uint32_t rank) const {
    if (gpu_stops()) return std::nullopt;
    if (rank == 0 && Arrived().load(kRelaxed) == 1 && HostWantsThemToLeave()) {
      return std::nullopt;
    }
    const uint64_t block = supply_.first + Taken().fetch_add(1, kRelaxed);
    if (block >= supply_.grid.count()) return std::nullopt;
    return block;
  }

  const simt::BlockSupply& supply_;
  const std::function<bool(uint64_t block)>& run_;
  std::atomic<bool> gpu_stops_{false};
};

}  // namespace

bool RunPtb(const simt::BlockSupply& supply, uint32_t threads,
            const std::function<bool(uint64_t block)>& run) {
  Residents residents(supply, run);
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < threads; ++i) {
    others.emplace_back([&residents] { residents.Live(); });
  }
  residents.Live();
  for (std::thread& other : others) other.join();
  return !residents.gpu_stops();
}

void EndPtb(const simt::EventFrame& frame, const simt::BlockSupply& supply) {
  simt::BlocksTaken& words = *supply.taken;
  const uint64_t taken = std::atomic_ref(words.taken).exchange(0, kRelaxed);
  const uint64_t stopped = std::atomic_ref(words.stopped).exchange(0, kRelaxed);
  std::atomic_ref(words.arrived).store(0, kRelaxed);
  std::atomic_ref(*supply.ended)
      .store(std::min(supply.first + (stopped != 0 ? stopped - 1 : taken),
                      supply.grid.count()),
             kRelaxed);
  CompleteEvent(frame);
}

}  // namespace carillon::gpud::cuda
