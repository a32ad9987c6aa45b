// Turns the outcome of a gRPC call to gpud into one absl::Status with a
// sentence that says what to do.
#ifndef CARILLON_DEVICES_SDK_RPC_STATUS_H_
#define CARILLON_DEVICES_SDK_RPC_STATUS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace carillon::edge {

// The call whose outcome is put into a sentence.
struct RpcCall {
  std::string_view method;
  std::string_view socket;  // path of gpud's control socket
  std::chrono::milliseconds timeout;
};

// The same code; the message is gpud's sentence and, after it, the hint of the
// ErrorDetail that gpud attached (trailer `carillon-error-bin`). UNAVAILABLE
// and DEADLINE_EXCEEDED that gRPC made itself say which socket or method and
// what to check. A malformed trailer is ignored.
absl::Status ToStatus(const grpc::Status& status,
                      const grpc::ClientContext& context, const RpcCall& call);

// ErrorDetail.reason of a status that came from gpud ("EKT_FULL"), empty if it
// has none.
std::string ErrorReason(const absl::Status& status);
// ErrorDetail.hint of such a status, which its message ends with, too. Empty if it
// has none: gpud's sentence may say what to do itself.
std::string ErrorHint(const absl::Status& status);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_RPC_STATUS_H_
