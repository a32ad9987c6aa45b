#include "base/status.h"

#include <fmt/format.h>

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

fmt::appender fmt::formatter<absl::string_view>::format(
    absl::string_view text, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(
      std::string_view(text.data(), text.size()), context);
}
