// Runs the carillon program as a user does, for integration tests.
#ifndef CARILLON_TOOLS_CLI_CLI_RUNNER_H_
#define CARILLON_TOOLS_CLI_CLI_RUNNER_H_

#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "tools/cli/cli_result.h"

namespace carillon::cli {

// A run that may still be going on. The destructor kills it.
class CliRun {
 public:
  // `in` becomes its stdin.
  explicit CliRun(const std::vector<std::string>& arguments,
                  int in = SpawnOptions::kNothing);
  ~CliRun();

  pid_t pid() const { return process_ ? process_->pid() : 0; }
  // What it has written to stderr so far.
  std::string err() const;
  // Waits for its end; kills it after `limit_s` seconds.
  CliResult Wait(int limit_s = 120);

 private:
  FILE* out_;
  FILE* err_;
  std::optional<Subprocess> process_;
};

inline CliResult RunCli(const std::vector<std::string>& arguments) {
  return CliRun(arguments).Wait();
}

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_CLI_RUNNER_H_
