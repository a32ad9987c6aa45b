#include "base/status.h"

#include "absl/strings/cord.h"

namespace carillon {
namespace {

constexpr char kHintType[] = "carillon/hint";

}  // namespace

absl::Status WithHint(absl::Status status, const std::string& hint) {
  if (!status.ok() && !hint.empty()) {
    status.SetPayload(kHintType, absl::Cord(hint));
  }
  return status;
}

std::string HintOf(const absl::Status& status) {
  const auto hint = status.GetPayload(kHintType);
  return hint ? std::string(*hint) : std::string();
}

}  // namespace carillon
