// Runs a command line: from argv to a command, and from its status to an exit
// code.
#ifndef CARILLON_TOOLS_CLI_APP_H_
#define CARILLON_TOOLS_CLI_APP_H_

#include <string>
#include <vector>

#include "tools/cli/ui/console.h"

namespace carillon::cli {

// `arguments` do not include the program's name. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_APP_H_
