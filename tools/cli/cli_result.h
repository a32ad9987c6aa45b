// What a command of the CLI printed and returned, for tests.
#ifndef CARILLON_TOOLS_CLI_CLI_RESULT_H_
#define CARILLON_TOOLS_CLI_CLI_RESULT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/ui/console.h"

namespace carillon::cli {

// What a command line gave, for tests.
struct CliResult {
  int code = -1;  // 128 + signal for a process that was killed
  std::string out;
  std::string err;

  // stdout as one JSON document; discarded if it is not.
  Json json() const { return Json::parse(out, nullptr, false); }
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_CLI_RESULT_H_
