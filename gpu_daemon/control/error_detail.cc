#include "gpu_daemon/control/error_detail.h"

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "base/status.h"
#include "base/text.h"

namespace carillon::gpud {
namespace {

constexpr char kPayloadUrl[] = "carillon.v1.ErrorDetail";
// What a client sent comes back in errors: it must not make them too long for a
// trailer.
constexpr size_t kMaxMessage = 1024;
constexpr size_t kMaxPart = 128;

// At most `limit` bytes, whole UTF-8 characters.
std::string_view Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (text[limit] & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

}  // namespace

std::string Printable(std::string_view text, size_t limit) {
  return std::string(
      Cut(EscapeBytes(Cut(text, limit), absl::ascii_iscntrl), limit));
}

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
  detail.set_reason(Printable(reason, kMaxPart));
  detail.set_subject(Printable(subject, kMaxPart));
  detail.set_hint(Printable(hint, kMaxPart));
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

grpc::Status ToGrpc(const absl::Status& status,
                    grpc::ServerContextBase* context) {
  if (status.ok()) return grpc::Status::OK;
  context->AddTrailingMetadata(kErrorTrailer,
                               DetailOf(status).SerializeAsString());
  // Both enums are the canonical codes.
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      Printable({status.message().data(), status.message().size()},
                kMaxMessage));
}

}  // namespace carillon::gpud
