// What a back-end is made with.
#ifndef CARILLON_GPU_DAEMON_EVENT_BACKEND_OPTIONS_H_
#define CARILLON_GPU_DAEMON_EVENT_BACKEND_OPTIONS_H_

#include <cstdint>
#include <string>

#include "gpu_daemon/event/backend.h"

namespace carillon::gpud {

struct BackendOptions {
  GpuModel gpu;  // what a back-end without a GPU emulates
  std::string policy = "first_come";
  uint32_t workers = 0;  // 0: as many as the machine is good for
  // Of launch path edge's own; a back-end that cannot reserve refuses all but 0.
  uint32_t reserved_sms = 0;
  // The configuration of the simulated GPU in whose time the testbed lives (a
  // preset's name or a file); empty: wall time.
  std::string timing;
  // Time begins when so many devices have attached.
  uint32_t first_devices = 1;
  // Receives the times of each event and kernel; empty: none.
  std::string event_log;
  bool tracing = false;
  OnViolation on_violation;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_BACKEND_OPTIONS_H_
