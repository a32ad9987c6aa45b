#include "tools/cli/testing/allowed_skips.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <sstream>

#include "absl/status/status.h"

namespace carillon::cli {
namespace {

bool Matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

bool AllowedSkip::AllowsTarget(const std::string& label) const {
  return Matches(target, label);
}

bool AllowedSkip::Allows(const std::string& of_configuration,
                         const std::string& label, const std::string& name,
                         const std::string& why) const {
  return Matches(configuration, of_configuration) && AllowsTarget(label) &&
         Matches(test_case, name.empty() ? "-" : name) && Matches(reason, why);
}

std::string AllowedSkip::Line() const {
  return fmt::format("{} {} {} {}", configuration, target, test_case, reason);
}

absl::StatusOr<std::vector<AllowedSkip>> ReadAllowedSkips(std::istream& list) {
  std::vector<AllowedSkip> skips;
  int number = 0;
  for (std::string line; std::getline(list, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream fields(line);
    AllowedSkip skip;
    fields >> skip.configuration >> skip.target >> skip.test_case >> std::ws;
    std::getline(fields, skip.reason);
    if (skip.reason.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("line {} of the list of allowed skips: '{}' is not "
                      "CONFIGURATION TARGET CASE REASON",
                      number, line));
    }
    skips.push_back(std::move(skip));
  }
  return skips;
}

}  // namespace carillon::cli
