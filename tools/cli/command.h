// A command of the command line: one file in commands/ and one line in
// commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMAND_H_
#define CARILLON_TOOLS_CLI_COMMAND_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/cli/arguments.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// Runs once, after the command line was parsed. The status becomes the exit
// code (exit_code.h); its message is printed, unless it is empty.
using Run = std::function<absl::Status()>;

struct Command {
  std::string_view name;  // one word, or two: "fault list"
  // The heading in `carillon help`; empty: it is not shown there.
  std::string_view group;
  std::string_view summary;
  // Complete command lines, shown first in the command's help.
  std::string_view examples;
  // Adds the command's own options and arguments: all commands but the hidden
  // ones have -o table|json (console.json()). The returned function may refer to
  // variables that it keeps alive itself.
  Run (*make)(Arguments& arguments, Console& console);
};

std::span<const Command> Commands();
// Returns null for an unknown command.
const Command* FindCommand(std::string_view name);

// Adds --name, the testbed; it stays empty if it is not given.
inline void AddNameOption(Arguments& arguments, std::string& name) {
  arguments.Text("--name TESTBED", name,
                 "The testbed; not needed when only one is up");
}

// Adds what all commands have but hidden ones, whose output nobody reads.
inline void AddOutputOption(const Command& command, Arguments& arguments,
                            Console& console) {
  if (command.group.empty()) return;
  arguments.Choice("-o,--output FORMAT", console.format, {"table", "json"},
                   "table for people, json for programs");
}

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMAND_H_
