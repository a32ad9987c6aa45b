#include "gpu_daemon/control/error_detail.h"

#include "absl/strings/cord.h"

namespace carillon::gpud {
namespace {

constexpr char kPayloadUrl[] = "carillon.v1.ErrorDetail";

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view message,
                   std::string_view reason, std::string_view subject,
                   std::string_view hint) {
  return WithDetail(absl::Status(code, std::string(message)), reason, subject,
                    hint);
}

absl::Status WithDetail(absl::Status status, std::string_view reason,
                        std::string_view subject, std::string_view hint) {
  if (status.ok() || status.GetPayload(kPayloadUrl)) return status;
  v1::ErrorDetail detail;
  detail.set_reason(std::string(reason));
  detail.set_subject(std::string(subject));
  detail.set_hint(std::string(hint));
  status.SetPayload(kPayloadUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  if (const auto payload = status.GetPayload(kPayloadUrl)) {
    detail.ParseFromString(std::string(*payload));
  } else if (!status.ok()) {
    detail.set_reason(absl::StatusCodeToString(status.code()));
  }
  return detail;
}

grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContext* context) {
  if (status.ok()) return grpc::Status::OK;
  context->AddTrailingMetadata(kErrorTrailer,
                               DetailOf(status).SerializeAsString());
  // Both enums are the canonical codes.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()));
}

}  // namespace carillon::gpud
