// The commands that look into a testbed, for the table in
// tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeDevices(Arguments& arguments, Console& console);
Run MakeEkt(Arguments& arguments, Console& console);
Run MakeKernels(Arguments& arguments, Console& console);
Run MakeLinks(Arguments& arguments, Console& console);
Run MakePostmortem(Arguments& arguments, Console& console);
Run MakeQueues(Arguments& arguments, Console& console);
Run MakeRings(Arguments& arguments, Console& console);
Run MakeStatus(Arguments& arguments, Console& console);
Run MakeTop(Arguments& arguments, Console& console);
Run MakeTraceExport(Arguments& arguments, Console& console);
Run MakeWatch(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_COMMANDS_H_
