// The parts of gpud that a device's session works with.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_CONTEXT_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_CONTEXT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/sessions/device_shares.h"
#include "gpu_daemon/control/sessions/event_kernel_table.h"
#include "gpu_daemon/control/sessions/memory_budget.h"
#include "gpu_daemon/control/sessions/module_store.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "gpu_daemon/dispatch/chain.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "shm/recorder/flight_recorder.h"
#include "shm/types.h"

namespace carillon::gpud {

// Every part outlives every session and is thread safe.
struct SessionContext {
  MemoryBudget* budget = nullptr;
  EventKernelTable* ekt = nullptr;
  TelemetryBus* bus = nullptr;
  EventLoop* loop = nullptr;
  Backend* backend = nullptr;
  KernelCatalog* kernels = nullptr;
  ModuleStore* modules = nullptr;
  shm::FlightRecorder* recorder = nullptr;  // null: off
  uint32_t max_priority = kPriorities - 1;  // that a device may ask for
  DeviceShares shares;
  ChainTable chains;

  // To be called before the first NextGeneration(), so that what a dead gpud of
  // this testbed has left is never of a generation of this one.
  void BeginAfterDeaths(uint32_t deaths) {
    generations_.store(deaths << 20, std::memory_order_relaxed);
  }
  // That a device may ask for: by its share, and by --max-priority.
  uint32_t HighestPriorityOf(const DeviceMemory& device) const {
    return std::min(max_priority, device.share().max_priority());
  }
  // Records a step of a session or of a ring, which belongs to no event.
  void Record(shm::Step step, uint32_t event_id, shm::Generation generation,
              uint64_t sequence, uint32_t status = 0) {
    if (recorder == nullptr) return;
    recorder->Record(step, event_id, generation, sequence,
                     shm::EventState::kNone, status);
  }
  // A new generation for an aperture or ring; never 0.
  shm::Generation NextGeneration() {
    uint32_t generation = 0;
    while (generation == 0) {
      generation = generations_.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    return shm::Generation(generation);
  }
  // A name for LaunchFilter::OfToken(); never 0.
  uint64_t NextLaunchToken() {
    return launch_tokens_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Background launches that some caller waits for. Writers and readers: the
  // sessions. Relaxed: several that look at once may pass the limit together,
  // each by one.
  std::atomic<uint32_t> waiting_launches{0};

 private:
  // Writers and readers: callers of the above. Relaxed: only the numbers count.
  std::atomic<uint32_t> generations_{0};
  std::atomic<uint64_t> launch_tokens_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_CONTEXT_H_
