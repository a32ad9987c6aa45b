// The copy engine of the simulated GPU, in its time: one chunk at once, at the
// rate of its PCIe link, the most urgent copy first at each chunk's end (GPES
// IV-B). It takes nothing from the bandwidth of DRAM.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_COPIES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_COPIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/memory_copy.h"
#include "sim/timing/config.h"

namespace carillon::gpud {

class TimedCopies {
 public:
  struct Ended {
    std::unique_ptr<MemoryCopy> copy;
    Nanoseconds at = 0;
  };

  // `memory` must outlive it.
  TimedCopies(KernelMemory* memory, CopyChunks chunks,
              const sim::timing::Config& gpu)
      : memory_(memory), chunks_(chunks), link_(gpu.pcie) {}

  // Copies that arrive at the same time go by `order`, their device's own, and
  // by the device's name.
  void Submit(std::unique_ptr<MemoryCopy> copy, uint64_t order);
  // Those that have arrived, the oldest first.
  std::vector<CopyProgress> List(Nanoseconds now) const;
  // When a chunk begins or ends next; shm::kNoTime: never.
  Nanoseconds next() const;
  // To be called at each of these times.
  std::vector<Ended> AdvanceTo(Nanoseconds now);
  // A chunk that is under way is lost.
  std::vector<Ended> Cancel(const LaunchFilter& which, shm::EventStatus why,
                            Nanoseconds now);

 private:
  using Place = std::tuple<Nanoseconds, std::string, uint64_t>;  // of arrival
  using Copies = std::map<Place, std::unique_ptr<MemoryCopy>>;

  void BeginChunk(Nanoseconds now);

  KernelMemory* const memory_;
  const CopyChunks chunks_;
  const decltype(sim::timing::Config::pcie) link_;
  Copies copies_;
  CopyTurns turns_;
  MemoryCopy* running_ = nullptr;  // of copies_
  Nanoseconds chunk_end_ = 0;      // of the last one, if none runs
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_COPIES_H_
