// Runs a command line within the test's own process.
#ifndef CARILLON_TOOLS_CLI_RUN_LINE_H_
#define CARILLON_TOOLS_CLI_RUN_LINE_H_

#include <cstdio>
#include <string>
#include <vector>

#include "tools/cli/app.h"
#include "tools/cli/cli_result.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

inline CliResult RunLine(const std::vector<std::string>& arguments) {
  const auto contents = [](FILE* file) {
    std::rewind(file);
    std::string text(65536, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  FILE* const out = std::tmpfile();
  FILE* const err = std::tmpfile();
  CliResult outcome;
  {
    Console console(out, err);
    outcome.code = RunCommandLine(arguments, console);
  }
  outcome.out = contents(out);
  outcome.err = contents(err);
  return outcome;
}

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_RUN_LINE_H_
