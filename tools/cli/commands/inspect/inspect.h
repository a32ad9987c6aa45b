// What the commands share that look into a testbed.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "proto/admin.pb.h"
#include "proto/common.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/commands/inspect/repeat.h"
#include "tools/cli/commands/inspect/testbed_option.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/client/snapshot_picture.h"
#include "tools/testbed/client/snapshot_rates.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

struct OpenTestbed {
  testbed::Testbed testbed;  // as in ChosenTestbed
  std::unique_ptr<testbed::AdminClient> client;
};

// Adds --name, --dir (for a gpud that was started by hand) and --gpud. The
// returned function opens the testbed that they choose. Errors: as
// TestbedOption::Choose.
std::function<absl::StatusOr<OpenTestbed>()> AddTestbedOption(
    Arguments& arguments);

// Adds the same, and runs `show` on the testbed.
Run MakeInspection(
    Arguments& arguments, Console& console,
    std::function<absl::Status(OpenTestbed& open, Console& console)> show);

// A command that looks into a testbed once, or with -w again and again.
class Inspection {
 public:
  using Show = std::function<absl::Status(OpenTestbed& open)>;
  using ShowPicture = std::function<absl::Status(
      OpenTestbed& open, const testbed::SnapshotPicture& picture,
      const testbed::SnapshotRates& rates)>;

  // Adds the testbed's options, and -w. `command` is its name.
  Inspection(std::string command, Arguments& arguments, Console& console);

  absl::Status Run(const Show& show) const;
  // `show` gets pictures and rates, and may still ask the client. With -w the
  // first picture has no rates. Without it, there are two pictures a quarter of a
  // second apart, and the second one is shown.
  absl::Status RunOnPictures(const ShowPicture& show) const;

 private:
  const std::string command_;
  Console* const console_;
  const std::function<absl::StatusOr<OpenTestbed>()> open_testbed_;
  Repeat repeat_;
};

// For a command that is nothing else.
Run MakeInspection(
    const std::string& command, Arguments& arguments, Console& console,
    std::function<absl::Status(OpenTestbed& open, Console& console)> show);

// Calls `on_picture` until it returns false, with a null pointer about every
// 100 ms. Errors: those of the stream; DeadlineExceeded (none has come in five
// seconds and an interval); Unavailable (gpud went down).
absl::Status FollowPictures(
    testbed::AdminClient& client, std::chrono::milliseconds interval,
    const std::function<bool(const testbed::SnapshotPicture*,
                             const testbed::SnapshotRates&)>& on_picture);

// Whether another gpud may come after `open`'s has gone: not in a testbed whose
// supervisor has ended.
bool MayReturn(const OpenTestbed& open);

// Explains the item called `name`, or prints it as JSON. `missing` is the error
// if there is none, with "{}{}" in the place of the name and a suggestion.
template <class Items, class Item>
absl::Status ShowOne(const Items& items, const std::string& name,
                     const char* missing,
                     void (*explain)(const Item&, Console&), Console& console) {
  std::vector<std::string_view> names;
  for (const Item& item : items) {
    names.push_back(item.name());
    if (item.name() != name) continue;
    if (console.json()) {
      console.PrintDocument(ToJson(item));
    } else {
      explain(item, console);
    }
    return absl::OkStatus();
  }
  // "memc" is far from "memc_get", but a name that somebody has begun.
  std::vector<std::string> begun;
  for (const std::string_view known : names) {
    if (known.starts_with(name)) begun.push_back(Quote(known));
  }
  return absl::NotFoundError(fmt::format(
      fmt::runtime(missing), Quote(name),
      DidYouMean(name, names,
                 begun.empty() ? ""
                               : fmt::format("; did you mean {}?",
                                             fmt::join(begun, " or ")))));
}

// Leaves out trailing ones: "32", "4x4", "2x1x3".
std::string FormatDim3(const v1::Dim3& dim);

// How long a launch has waited; in simulated time that is less than a second.
std::string FormatWait(uint64_t ns);

// An event kernel by its kernel and what its device calls it:
// "memc_get (get-large)".
std::string WithLabel(const std::string& kernel, const std::string& label);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_
