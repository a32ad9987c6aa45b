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
  switch (code) {
    case ExitCode::kOk:
      return "ok";
    case ExitCode::kFailed:
      return "failed";
    case ExitCode::kUsage:
      return "usage";
    case ExitCode::kNotFound:
      return "not_found";
    case ExitCode::kUnavailable:
      return "unavailable";
    case ExitCode::kDenied:
      return "denied";
    case ExitCode::kViolated:
      return "violated";
    case ExitCode::kInterrupted:
      return "interrupted";
  }
  return "failed";
}

}  // namespace carillon::cli
