// -w: a command that shows what is there again and again.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_REPEAT_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_REPEAT_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "devices/sdk/cancel_calls.h"
#include "tools/cli/arguments.h"
#include "tools/cli/ui/console.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {

// The blocks of one command. Made before gRPC starts its threads.
class Blocks {
 public:
  Blocks(std::string title, Console* console)
      : title_(std::move(title)), console_(console) {}

  // Whether the command is at its end: Ctrl-C, or nobody reads.
  bool Stopped();
  // Waits until then, but not beyond `deadline`.
  void Wait(std::chrono::steady_clock::time_point deadline);
  // Prints what `show` prints. An error is printed, too, if the testbed may be
  // there again (gpud is gone or does not answer, and it was there before);
  // else it is returned.
  absl::Status Draw(const std::function<absl::Status()>& show,
                    const std::function<bool()>& may_return);

 private:
  const std::string title_;
  Console* const console_;
  testbed::StopSignals signals_;
  const edge::CancelCalls cancel_calls_{signals_.fd()};
  bool stopped_ = false;
  bool shown_ = false;
};

class Repeat {
 public:
  // Adds -w, whose value is kept here.
  explicit Repeat(Arguments& arguments);
  Repeat(const Repeat&) = delete;
  Repeat& operator=(const Repeat&) = delete;

  bool wanted() const { return seconds_ > 0; }
  std::chrono::milliseconds interval() const;
  std::string Title(const std::string& command) const;

  // Calls `show` once; with -w every interval, until it fails for good.
  absl::Status Run(const std::string& command, Console& console,
                   const std::function<absl::Status()>& show,
                   const std::function<bool()>& may_return) const;

 private:
  double seconds_ = 0;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_REPEAT_H_
