// A gpud without threads, sockets and clocks: its control plane (sessions, EKT,
// tickets), its front-end's doorbell poller and its kernels on this core,
// driven one step at a time.
#ifndef CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_GPUD_H_
#define CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_GPUD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/ticket_store.h"
#include "gpu_daemon/control/sessions/event_kernel_table.h"
#include "gpu_daemon/control/sessions/memory_budget.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::simulation {

class SimulatedBackend;

class SimulatedGpud {
 public:
  // What one gpud shares with the next.
  struct Surroundings {
    gpud::TelemetryBus* bus = nullptr;
    std::string directory;  // for recorder files; empty: nothing is recorded
    gpud::GpuModel gpu;
  };
  // `deaths` is the number of gpuds that died before. This one ends like a
  // killed process: nobody is told.
  SimulatedGpud(const Surroundings& surroundings, uint32_t pid,
                uint32_t deaths);
  ~SimulatedGpud();

  uint32_t pid() const { return pid_; }
  gpud::SessionTable& sessions() { return sessions_; }
  gpud::EventKernelTable& ekt() { return ekt_; }

  // Polls every doorbell once; true if any was rung.
  bool Poll();
  // The launches that have not run yet.
  size_t pending() const;
  void RunPending(size_t index);
  // Ends the sessions of devices that broke the protocol; returns how many.
  size_t EvictViolators();

  shm::FlightRecording Recording() const;

 private:
  const uint32_t pid_;
  std::unique_ptr<shm::FlightRecorder> recorder_;
  std::unique_ptr<gpud::EventLoop> loop_;
  gpud::MemoryBudget budget_;
  gpud::EventKernelTable ekt_;
  gpud::TicketStore tickets_;
  gpud::SessionContext context_;
  std::unique_ptr<SimulatedBackend> backend_;
  gpud::KernelCatalog kernels_;
  gpud::SessionTable sessions_;
};

}  // namespace carillon::simulation

#endif  // CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_GPUD_H_
