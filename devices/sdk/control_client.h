// gpud's control plane as blocking calls with a deadline each: no call can wait
// for ever.
#ifndef CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_
#define CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/rpc_status.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"

namespace carillon::edge {

// Thread safe. Errors: as gpud gives them; Unavailable when nobody listens,
// DeadlineExceeded.
class ControlClient {
 public:
  ControlClient(std::string socket_path, std::chrono::milliseconds timeout);

  std::chrono::milliseconds timeout() const { return timeout_; }

  // One call of a service's method: Call(devices(), &v1::Devices::Stub::Attach,
  // "Attach", ...).
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(
      Stub& stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      std::string_view name, const Request& request,
      std::chrono::milliseconds timeout) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok())
      return ToStatus(status, context, {name, socket_path_, timeout});
    return response;
  }

  v1::Devices::Stub& devices() const { return *devices_; }
  v1::Events::Stub& events() const { return *events_; }

 private:
  const std::string socket_path_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<v1::Devices::Stub> devices_;
  std::unique_ptr<v1::Events::Stub> events_;
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_
