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

// gRPC's own text, without its words around the reason of a connection that
// failed: "...; last error: UNKNOWN: unix:/x/control.sock: Connection refused".
std::string_view ReasonIn(std::string_view text, std::string_view socket) {
  const size_t at = text.rfind(socket);
  if (at == std::string_view::npos) return text;
  const std::string_view reason = text.substr(at + socket.size());
  return reason.starts_with(": ") ? reason.substr(2) : text;
}

std::string NoAnswer(const RpcCall& call, std::string_view how_long) {
  return fmt::format(
      "gpud at {} did not answer {}{}: it is stopped or overloaded; carillon "
      "ps shows which, and kill -CONT PID has a stopped one go on",
      call.socket, call.method, how_long);
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
        // A sentence may say it itself.
        status.error_message().find(detail->hint()) != std::string::npos
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
      // The kernel connects to one that is stopped; HTTP/2 does not begin.
      if (status.error_message().find("timed out") != std::string::npos) {
        return absl::UnavailableError(NoAnswer(call, ""));
      }
      return absl::UnavailableError(fmt::format(
          "cannot reach gpud at {}: {}; is the testbed up? (carillon ps)",
          call.socket, ReasonIn(status.error_message(), call.socket)));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(
          NoAnswer(call, fmt::format(" within {} ms", call.timeout.count())));
    case grpc::StatusCode::INTERNAL:
      // What gRPC says of a message that cannot be parsed.
      if (status.error_message().empty()) {
        return absl::InternalError(fmt::format(
            "gpud cannot read the request {}: a text in it is no UTF-8",
            call.method));
      }
      [[fallthrough]];
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
