// What the files in commands/ give to the table in commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeBench(CLI::App& app, Console& console);
Run MakeCleanup(CLI::App& app, Console& console);
Run MakeDemo(CLI::App& app, Console& console);
Run MakeDevices(CLI::App& app, Console& console);
Run MakeDoctor(CLI::App& app, Console& console);
Run MakeDown(CLI::App& app, Console& console);
Run MakeEkt(CLI::App& app, Console& console);
Run MakeKernels(CLI::App& app, Console& console);
Run MakeLogs(CLI::App& app, Console& console);
Run MakePolicy(CLI::App& app, Console& console);
Run MakePs(CLI::App& app, Console& console);
Run MakeQueues(CLI::App& app, Console& console);
Run MakeRings(CLI::App& app, Console& console);
Run MakeStatus(CLI::App& app, Console& console);
Run MakeSupervise(CLI::App& app, Console& console);
Run MakeTest(CLI::App& app, Console& console);
Run MakeTrace(CLI::App& app, Console& console);
Run MakeUp(CLI::App& app, Console& console);
Run MakeValidate(CLI::App& app, Console& console);
Run MakeWatch(CLI::App& app, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_H_
