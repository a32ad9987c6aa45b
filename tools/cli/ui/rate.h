// Rates, which are not known before there were two looks.
#ifndef CARILLON_TOOLS_CLI_UI_RATE_H_
#define CARILLON_TOOLS_CLI_UI_RATE_H_

#include <optional>
#include <string>

#include "base/json.h"

namespace carillon::cli {

// "12,345", "29.8" below 100, "0"; "-": not known.
std::string FormatRate(const std::optional<double>& per_second);

// null: not known.
Json ToJson(const std::optional<double>& per_second);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_RATE_H_
