// The commands that measure and prove, for the table in tools/cli/commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_DEV_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_DEV_COMMANDS_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/cli/command.h"

namespace carillon::cli {

// What `carillon bench` knows: names and summaries.
std::vector<std::pair<std::string, std::string>> Benchmarks();

Run MakeBench(Arguments& arguments, Console& console);
Run MakeDoctor(Arguments& arguments, Console& console);
Run MakeGpuBundle(Arguments& arguments, Console& console);
Run MakeTest(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_DEV_COMMANDS_H_
