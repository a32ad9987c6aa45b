#include "devices/sdk/rpc_status.h"

#include <optional>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "proto/common.pb.h"

namespace carillon::edge {
namespace {

constexpr char kTrailer[] = "carillon-error-bin";
// Text, since status.ToString() shows them.
constexpr char kReason[] = "reason";
constexpr char kHint[] = "hint";

std::optional<v1::ErrorDetail> DetailOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(kTrailer);
  if (found == trailers.end()) return std::nullopt;
  v1::ErrorDetail detail;
  if (!detail.ParseFromArray(found->second.data(),
                             static_cast<int>(found->second.size()))) {
    return std::nullopt;
  }
  return detail;
}

std::string PayloadOf(const absl::Status& status, const char* type) {
  const auto payload = status.GetPayload(type);
  return payload ? std::string(*payload) : "";
}

}  // namespace

absl::Status ToStatus(const grpc::Status& status,
                      const grpc::ClientContext& context, const RpcCall& call) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (const auto detail = DetailOf(context)) {
    absl::Status result(
        code,
        detail->hint().empty()
            ? status.error_message()
            : fmt::format("{}; {}", status.error_message(), detail->hint()));
    result.SetPayload(kReason, absl::Cord(detail->reason()));
    if (!detail->hint().empty()) {
      result.SetPayload(kHint, absl::Cord(detail->hint()));
    }
    return result;
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(fmt::format(
          "cannot reach gpud at {}: {}; is the testbed up? (carillon ps)",
          call.socket, status.error_message()));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(
          fmt::format("gpud at {} did not answer {} within {} ms; is it "
                      "stopped or overloaded?",
                      call.socket, call.method, call.timeout.count()));
    default:
      return absl::Status(
          code, fmt::format("{}: {}", call.method, status.error_message()));
  }
}

std::string ErrorReason(const absl::Status& status) {
  return PayloadOf(status, kReason);
}

std::string ErrorHint(const absl::Status& status) {
  return PayloadOf(status, kHint);
}

}  // namespace carillon::edge
