// Refuses what a device may not call. control.sock serves the services Devices
// and Events; every other call there comes here, and is refused before gpud
// reads its message.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICE_GATE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICE_GATE_H_

#include <grpcpp/generic/async_generic_service.h>

#include <string>
#include <utility>

#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/rpc/refused_calls.h"

namespace carillon::gpud {

// Thread safe.
class DeviceGate final : public grpc::CallbackGenericService {
 public:
  // `operator_socket` is where the call may be made.
  DeviceGate(std::string operator_socket, const PeerTable* peers)
      : operator_socket_(std::move(operator_socket)), peers_(peers) {}

  // Called by gRPC for each call of a method that no service has. It ends with
  // DeviceRefusal().
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  RefusedCalls& refused() { return refused_; }

 private:
  const std::string operator_socket_;
  const PeerTable* const peers_;
  RefusedCalls refused_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICE_GATE_H_
