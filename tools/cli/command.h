// One command of the command line: one file in commands/ and one line in
// commands.cc.
#ifndef CARILLON_TOOLS_CLI_COMMAND_H_
#define CARILLON_TOOLS_CLI_COMMAND_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/cli/ui/console.h"

namespace CLI {
class App;
}

namespace carillon::cli {

// Runs once, after the command line was parsed. The status becomes the exit
// code (exit_code.h); its message is printed, unless it is empty.
using Run = std::function<absl::Status()>;

struct Command {
  std::string_view name;
  // Heading in `carillon help`; empty: not shown there.
  std::string_view group;
  std::string_view summary;
  // Complete command lines, first in the command's help.
  std::string_view examples;
  // Adds the options to `app`; what it returns may refer to variables that it
  // keeps alive itself.
  Run (*make)(CLI::App& app, Console& console);
};

std::span<const Command> Commands();
// Null for one that there is not.
const Command* FindCommand(std::string_view name);

// -o table|json, into console.json.
void AddOutputOption(CLI::App& app, Console& console);
// --name, the testbed; stays empty when it is not given.
void AddNameOption(CLI::App& app, std::string& name);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMAND_H_
