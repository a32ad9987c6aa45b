#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kDenied;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kViolated;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kFailed;
  }
}

const char* ExitCodeName(ExitCode code) {
  static constexpr const char* kNames[] = {"ok",        "failed",      "usage",
                                           "not_found", "unavailable", "denied",
                                           "violated"};
  return code == ExitCode::kInterrupted ? "interrupted"
                                        : kNames[static_cast<int>(code)];
}

}  // namespace carillon::cli
