// `carillon completion`: makes the shell complete command lines.
#ifndef CARILLON_TOOLS_CLI_COMPLETION_H_
#define CARILLON_TOOLS_CLI_COMPLETION_H_

#include "tools/cli/command.h"

namespace carillon::cli {

// Prints a script for the shell, which asks `carillon complete` at each Tab: a
// script that was saved once is never behind the program.
Run MakeCompletion(Arguments& arguments, Console& console);

// Prints what completes the words behind its "--": a line "WORD<Tab>HELP" for
// each candidate, and ":files" if names of files go, too. Says nothing else.
Run MakeComplete(Arguments& arguments, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMPLETION_H_
