// Faults on purpose in the control plane's calls.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_

#include <string_view>

#include "absl/status/status.h"
#include "shm/faults/point.h"

namespace carillon::gpud {

// Point gpud.rpc: how the call ends, if a fault ends it.
absl::Status PassRpc(std::string_view method, std::string_view device = "");

// A point where there may seem to be no room: ResourceExhausted with `reason`.
absl::Status PassRoom(faults::Point point, std::string_view device,
                      std::string_view reason);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_RPC_FAULTS_H_
