#include "gpu_daemon/control/sessions/names.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxQuoted = 64;

bool IsNameCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' ||
         c == '-';
}

bool IsFigureCharacter(char c) {
  return IsNameCharacter(c) || absl::ascii_isupper(c) || c == '.';
}

absl::Status BadName(std::string_view what, std::string_view name,
                     std::string_view rule) {
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("{} {}: must be {}", what, Quoted(name), rule),
               reason::kBadName, name);
}

}  // namespace

std::string Quoted(std::string_view text) {
  const auto is_unsafe = [](unsigned char c) {
    return !absl::ascii_isprint(c);
  };
  return fmt::format("'{}{}'",
                     EscapeBytes(text.substr(0, kMaxQuoted), is_unsafe),
                     text.size() > kMaxQuoted ? "..." : "");
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
      std::none_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return absl::OkStatus();
  }
  return BadName(
      what, text,
      fmt::format("at most {} bytes without control characters", limit));
}

}  // namespace carillon::gpud
