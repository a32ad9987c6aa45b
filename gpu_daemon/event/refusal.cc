#include "gpu_daemon/event/refusal.h"

#include "absl/strings/cord.h"

namespace carillon::gpud {
namespace {

constexpr char kPayloadUrl[] = "carillon.OnAnyPath";
constexpr char kNotYetUrl[] = "carillon.NotYet";

}  // namespace

absl::Status OnAnyPath(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPayloadUrl, absl::Cord());
  return status;
}

absl::Status NotYet() {
  absl::Status status = absl::UnavailableError("not yet");
  status.SetPayload(kNotYetUrl, absl::Cord());
  return status;
}

bool IsNotYet(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         status.GetPayload(kNotYetUrl).has_value();
}

bool AnotherPathMayServe(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return !status.GetPayload(kPayloadUrl);
    default:
      return false;
  }
}

}  // namespace carillon::gpud
