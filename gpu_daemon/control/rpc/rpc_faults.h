// Injects faults into the control plane's calls.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "shm/faults/point.h"

namespace carillon::gpud {

// Passes the point gpud.rpc. Returns the status with which a fault ends the
// call, or OK.
absl::Status PassRpc(std::string_view method, std::string_view device = "");

// Passes a point where a fault can pretend that there is no room. Returns
// ResourceExhausted with `reason` then; at a point that can be `full`, what the
// real thing says.
absl::Status PassRoom(
    faults::Point point, std::string_view device, std::string_view reason,
    absl::FunctionRef<absl::Status()> full = [] { return absl::OkStatus(); });

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_
