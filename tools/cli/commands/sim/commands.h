// The commands for the simulated GPU, for the table in tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_SIM_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_SIM_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeCfgSim(Arguments& arguments, Console& console);
Run MakeHashSim(Arguments& arguments, Console& console);
Run MakeSimCfg(Arguments& arguments, Console& console);
Run MakeSimFigure(Arguments& arguments, Console& console);
Run MakeSimOccupancy(Arguments& arguments, Console& console);
Run MakeSimOps(Arguments& arguments, Console& console);
Run MakeSimRun(Arguments& arguments, Console& console);
Run MakeSimTrace(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_SIM_COMMANDS_H_
