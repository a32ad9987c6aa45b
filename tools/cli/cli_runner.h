// Runs the carillon program as a user does, for the integration tests.
#ifndef CARILLON_TOOLS_CLI_CLI_RUNNER_H_
#define CARILLON_TOOLS_CLI_CLI_RUNNER_H_

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/ui/console.h"

namespace carillon::cli {

struct CliResult {
  int code = -1;  // 128 + signal for one that was killed
  std::string out;
  std::string err;

  // stdout as one JSON document; discarded if it is not.
  Json json() const { return Json::parse(out, nullptr, false); }
};

// A run that has not ended yet. Killed when its object goes.
class CliRun {
 public:
  explicit CliRun(const std::vector<std::string>& arguments);
  ~CliRun();

  pid_t pid() const { return pid_; }
  // What it has said on stderr so far.
  std::string err() const;
  // Waits for its end; after `limit_s` seconds it is killed.
  CliResult Wait(int limit_s = 120);

 private:
  pid_t pid_ = 0;
  FILE* out_;
  FILE* err_;
};

inline CliResult RunCli(const std::vector<std::string>& arguments) {
  return CliRun(arguments).Wait();
}

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_CLI_RUNNER_H_
