#include "gpu_daemon/control/sessions/names.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxQuoted = 64;

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsNameCharacter(char c) {
  return IsLowerOrDigit(c) || c == '_' || c == '-';
}

bool IsFigureCharacter(char c) {
  return IsNameCharacter(c) || (c >= 'A' && c <= 'Z') || c == '.';
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

absl::Status BadName(std::string_view what, std::string_view name,
                     std::string_view rule) {
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("{} {}: must be {}", what, Quoted(name), rule),
               reason::kBadName, name);
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kMaxQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", byte);
    }
  }
  quoted += text.size() > kMaxQuoted ? "...'" : "'";
  return quoted;
}

absl::Status CheckName(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameLength &&
      std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return absl::OkStatus();
  }
  return BadName(what, name,
                 fmt::format("1 to {} characters of a-z, 0-9, '_' and '-'",
                             kMaxNameLength));
}

absl::Status CheckFigureNames(
    std::string_view what,
    const google::protobuf::RepeatedPtrField<std::string>& names,
    size_t limit) {
  if (static_cast<size_t>(names.size()) > limit) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("{} {}s were named: the limit is {}", names.size(),
                             what, limit),
                 reason::kTooMany, what);
  }
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > kMaxFigureNameLength ||
        !std::all_of(name.begin(), name.end(), IsFigureCharacter)) {
      return BadName(what, name,
                     fmt::format("1 to {} characters of letters, digits, '_', "
                                 "'.' and '-'",
                                 kMaxFigureNameLength));
    }
    if (!seen.insert(name).second) {
      return BadName(what, name, "named only once");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view what, std::string_view text,
                       size_t limit) {
  if (text.size() <= limit &&
      std::none_of(text.begin(), text.end(), IsControl)) {
    return absl::OkStatus();
  }
  return BadName(
      what, text,
      fmt::format("at most {} bytes without control characters", limit));
}

}  // namespace carillon::gpud
