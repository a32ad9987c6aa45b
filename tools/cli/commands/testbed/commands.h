// The commands that run and steer a testbed, for the table in
// tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeCleanup(Arguments& arguments, Console& console);
Run MakeDashboard(Arguments& arguments, Console& console);
Run MakeDemo(Arguments& arguments, Console& console);
Run MakeDown(Arguments& arguments, Console& console);
Run MakeExec(Arguments& arguments, Console& console);
Run MakeHosts(Arguments& arguments, Console& console);
Run MakeKernel(Arguments& arguments, Console& console);
Run MakeLogs(Arguments& arguments, Console& console);
Run MakePolicy(Arguments& arguments, Console& console);
Run MakePs(Arguments& arguments, Console& console);
Run MakeRestart(Arguments& arguments, Console& console);
Run MakeSupervise(Arguments& arguments, Console& console);
Run MakeTrace(Arguments& arguments, Console& console);
Run MakeUp(Arguments& arguments, Console& console);
Run MakeValidate(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_TESTBED_COMMANDS_H_
