#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/testbed_paths.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/supervisor/launch_plan.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string testbed;
  std::vector<std::string> command;
};

// What a device of kind exec finds around it, but for its name: this program may
// be none, or several.
absl::Status Become(const Options& options) {
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(options.testbed));
  ASSIGN_OR_RETURN(const auto program, FindProgram(options.command[0]));
  setenv(kTestbedDirectoryVariable, testbed.paths.directory().c_str(), 1);
  if (const std::string path = testbed::PythonPath(); !path.empty()) {
    const size_t sign = path.find('=');
    setenv(path.substr(0, sign).c_str(), path.substr(sign + 1).c_str(), 1);
  }
  std::vector<char*> argv;
  for (const std::string& word : options.command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return absl::InternalError(
      fmt::format("cannot run {}: {}", program, std::strerror(errno)));
}

}  // namespace

Run MakeExec(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Texts(
          "program PROGRAM", options->command,
          "What to run, and its arguments, after --. It finds the testbed in "
          "CARILLON_TESTBED_DIR, and carillon_sdk and carillon_testbed in "
          "PYTHONPATH. The exit code is its own")
      .Required();
  AddNameOption(arguments, options->testbed);
  return [options] { return Become(*options); };
}

}  // namespace carillon::cli
