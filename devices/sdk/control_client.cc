#include "devices/sdk/control_client.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "devices/sdk/unix_target.h"

namespace carillon::edge {

ControlClient::ControlClient(std::string socket_path,
                             std::chrono::milliseconds timeout)
    : socket_path_(std::move(socket_path)), timeout_(timeout) {
  grpc::ChannelArguments arguments;
  // A connection of its own: another device of this process may have left the
  // shared one in back-off, and would make this one fail although gpud is
  // there.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(
      UnixTarget(socket_path_), grpc::InsecureChannelCredentials(), arguments);
  stubs_ = {v1::Devices::NewStub(channel), v1::Events::NewStub(channel)};
}

}  // namespace carillon::edge
