// What the files in commands/ give to the table in commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_H_
#define CARILLON_TOOLS_CLI_COMMANDS_H_

#include "tools/cli/command.h"

namespace carillon::cli {

Run MakeBench(Arguments& arguments, Console& console);
Run MakeCleanup(Arguments& arguments, Console& console);
Run MakeDemo(Arguments& arguments, Console& console);
Run MakeDevices(Arguments& arguments, Console& console);
Run MakeDoctor(Arguments& arguments, Console& console);
Run MakeDown(Arguments& arguments, Console& console);
Run MakeEkt(Arguments& arguments, Console& console);
Run MakeFaultClear(Arguments& arguments, Console& console);
Run MakeFaultInject(Arguments& arguments, Console& console);
Run MakeFaultList(Arguments& arguments, Console& console);
Run MakeFaultPoints(Arguments& arguments, Console& console);
Run MakeFaultRun(Arguments& arguments, Console& console);
Run MakeGpuBundle(Arguments& arguments, Console& console);
Run MakeKernel(Arguments& arguments, Console& console);
Run MakeKernels(Arguments& arguments, Console& console);
Run MakeLogs(Arguments& arguments, Console& console);
Run MakePolicy(Arguments& arguments, Console& console);
Run MakePostmortem(Arguments& arguments, Console& console);
Run MakePs(Arguments& arguments, Console& console);
Run MakeQueues(Arguments& arguments, Console& console);
Run MakeRestart(Arguments& arguments, Console& console);
Run MakeRings(Arguments& arguments, Console& console);
Run MakeSimCfg(Arguments& arguments, Console& console);
Run MakeSimFigure(Arguments& arguments, Console& console);
Run MakeSimTrace(Arguments& arguments, Console& console);
Run MakeSimOccupancy(Arguments& arguments, Console& console);
Run MakeSimOps(Arguments& arguments, Console& console);
Run MakeSimRun(Arguments& arguments, Console& console);
Run MakeStatus(Arguments& arguments, Console& console);
Run MakeSupervise(Arguments& arguments, Console& console);
Run MakeTest(Arguments& arguments, Console& console);
Run MakeTrace(Arguments& arguments, Console& console);
Run MakeUp(Arguments& arguments, Console& console);
Run MakeValidate(Arguments& arguments, Console& console);
Run MakeWatch(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_H_
