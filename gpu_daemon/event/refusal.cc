#include "gpu_daemon/event/refusal.h"

#include "absl/strings/cord.h"

namespace carillon::gpud {
namespace {

constexpr char kPayloadUrl[] = "carillon.OnAnyPath";

}  // namespace

absl::Status OnAnyPath(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPayloadUrl, absl::Cord());
  return status;
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
