// Errors of a command that goes on after one: all are told, none hides another.
#ifndef CARILLON_TOOLS_CLI_UI_FAILURES_H_
#define CARILLON_TOOLS_CLI_UI_FAILURES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// {"code": .., "message": .., "hint": ..}: an error under -o json.
Json ErrorToJson(const absl::Status& status);

class Failures {
 public:
  // Nothing for OK. `name`: of the testbed that it happened to.
  void Add(const std::string& name, const absl::Status& status);

  // OK for none; the error itself for one; for several one with the first's
  // code that tells how many.
  absl::Status Status() const;
  // Each with its name, where Status() does not tell it.
  void Say(Console& console) const;
  // Under -o json: "failed", a list with the names, and "error", as other
  // commands have it, unless there was none.
  void AddTo(Json& document) const;

 private:
  std::vector<std::pair<std::string, absl::Status>> failures_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_FAILURES_H_
