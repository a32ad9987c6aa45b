// The commands that share runs among many workers, for the table in
// tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_SWEEP_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_SWEEP_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeSweepFaults(Arguments& arguments, Console& console);
Run MakeSweepFigure(Arguments& arguments, Console& console);
Run MakeSweepWork(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_SWEEP_COMMANDS_H_
