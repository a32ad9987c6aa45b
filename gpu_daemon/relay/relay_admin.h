// What an operator may ask of a gpud that relays: how it is, and its devices. All
// else is the other host's to say.
#ifndef CARILLON_GPU_DAEMON_RELAY_RELAY_ADMIN_H_
#define CARILLON_GPU_DAEMON_RELAY_RELAY_ADMIN_H_

#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <string>
#include <utility>

#include "proto/admin.pb.h"

namespace carillon::gpud {

// Thread safe, if these are.
class RelayAdmin final : public grpc::CallbackGenericService {
 public:
  struct Answers {
    std::function<v1::GetStatusResponse()> status;
    std::function<v1::ListDevicesResponse()> devices;
  };
  // `peer`: the GPU's host.
  RelayAdmin(std::string peer, Answers answers)
      : peer_(std::move(peer)), answers_(std::move(answers)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const std::string peer_;
  const Answers answers_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_RELAY_RELAY_ADMIN_H_
