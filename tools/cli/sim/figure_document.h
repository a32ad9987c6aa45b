// Shows the document of a figure: what the sim figure and hashsim commands make.
#ifndef CARILLON_TOOLS_CLI_SIM_FIGURE_DOCUMENT_H_
#define CARILLON_TOOLS_CLI_SIM_FIGURE_DOCUMENT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// Prints title, conditions, tables and summary.
void PrintFigure(const Json& document, Console& console);

// Writes DIRECTORY/NAME.json and, where it can be drawn, NAME.png, and says so.
// Errors: those of a file that cannot be written; a missing plot is only said.
absl::Status WriteFigure(const std::string& directory, std::string_view name,
                         const Json& document, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SIM_FIGURE_DOCUMENT_H_
