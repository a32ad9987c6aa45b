// A gRPC channel to gpud, for the clients here. The many files that ask gpud
// need not compile gRPC.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_GPUD_CHANNEL_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_GPUD_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "devices/sdk/cancelled_call.h"
#include "tools/testbed/client/remote_gpud.h"

namespace carillon::testbed {

// Thread safe.
class GpudChannel {
 public:
  explicit GpudChannel(const std::string& socket);
  // Connects over TCP, with TLS.
  explicit GpudChannel(RemoteGpud gpud);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // The socket's path, or HOST:PORT.
  const std::string& where() const { return where_; }
  bool remote() const { return gpud_.has_value(); }

  template <class Stub, class Request, class Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    std::string_view name, const Request& request,
                    Response* response,
                    std::chrono::milliseconds timeout) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    const edge::CancelledCall cancelled(&context);
    const grpc::Status status = (stub.*method)(&context, request, response);
    return ToStatus(status, context, name, timeout);
  }

  // The same code, with a sentence that says what to do. If a TCP connection
  // fails, finds out why (Diagnose()).
  absl::Status ToStatus(const grpc::Status& status,
                        const grpc::ClientContext& context,
                        std::string_view method,
                        std::chrono::milliseconds timeout) const;

 private:
  const std::optional<RemoteGpud> gpud_;
  const std::string where_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_GPUD_CHANNEL_H_
