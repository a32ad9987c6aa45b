// The commands that break a testbed on purpose, for the table in
// tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_FAULT_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_FAULT_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeFaultClear(Arguments& arguments, Console& console);
Run MakeFaultInject(Arguments& arguments, Console& console);
Run MakeFaultList(Arguments& arguments, Console& console);
Run MakeFaultPoints(Arguments& arguments, Console& console);
Run MakeFaultRun(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_COMMANDS_H_
