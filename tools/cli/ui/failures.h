// Collects errors of a command that goes on after a failure, so that all are
// reported.
#ifndef CARILLON_TOOLS_CLI_UI_FAILURES_H_
#define CARILLON_TOOLS_CLI_UI_FAILURES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// An error under -o json: {"code": .., "message": .., "hint": ..}.
Json ErrorToJson(const absl::Status& status);

class Failures {
 public:
  // Does nothing for OK. `name` is the testbed that it happened to.
  void Add(const std::string& name, const absl::Status& status);

  // OK if there are none; the error itself if there is one; else an error with
  // the first one's code that says how many there are.
  absl::Status Status() const;
  // Prints each error with its name, unless Status() already says it.
  void Say(Console& console) const;
  // Adds to a document under -o json: "failed", a list with the names, and
  // "error", as other commands have it, unless there was none.
  void AddTo(Json& document) const;

 private:
  std::vector<std::pair<std::string, absl::Status>> failures_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_FAILURES_H_
