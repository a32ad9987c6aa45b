// `carillon completion`: makes the shell complete command lines.
#ifndef CARILLON_TOOLS_CLI_COMPLETION_H_
#define CARILLON_TOOLS_CLI_COMPLETION_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeCompletion(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMPLETION_H_
