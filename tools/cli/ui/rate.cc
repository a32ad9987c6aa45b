#include "tools/cli/ui/rate.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace carillon::cli {

std::string FormatRate(const std::optional<double>& per_second) {
  if (!per_second) return "-";
  if (*per_second == 0) return "0";
  if (*per_second < 99.95) return fmt::format("{:.1f}", *per_second);
  return FormatCount(static_cast<uint64_t>(std::llround(*per_second)));
}

Json ToJson(const std::optional<double>& per_second) {
  return per_second ? Json(*per_second) : Json();
}

}  // namespace carillon::cli
