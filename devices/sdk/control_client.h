// gpud's control plane as blocking calls with a deadline each: no call can wait
// for ever.
#ifndef CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_
#define CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/statusor.h"
#include "devices/sdk/cancelled_call.h"
#include "devices/sdk/rpc_status.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"

namespace carillon::edge {

// Thread safe. Errors: as gpud gives them; Unavailable when nobody listens,
// DeadlineExceeded, Cancelled (CancelCalls).
class ControlClient {
 public:
  ControlClient(std::string socket_path, std::chrono::milliseconds timeout);

  std::chrono::milliseconds timeout() const { return timeout_; }

  // One call of a service's method: Call(&v1::Devices::Stub::Attach, ...).
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request, std::chrono::milliseconds timeout) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    Response response;
    const CancelledCall cancelled(&context);
    const grpc::Status status = (*std::get<std::unique_ptr<Stub>>(stubs_).*
                                 method)(&context, request, &response);
    if (status.ok()) return response;
    // AttachRequest is what Attach takes, as everywhere in proto/.
    std::string_view name = Request::descriptor()->name();
    name.remove_suffix(std::string_view("Request").size());
    return ToStatus(status, context, {name, socket_path_, timeout});
  }

 private:
  const std::string socket_path_;
  const std::chrono::milliseconds timeout_;
  std::tuple<std::unique_ptr<v1::Devices::Stub>,
             std::unique_ptr<v1::Events::Stub>>
      stubs_;
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_CONTROL_CLIENT_H_
