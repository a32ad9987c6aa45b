// What the commands share that look into a testbed.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "proto/admin.pb.h"
#include "proto/common.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/commands/inspect/gpud_option.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

struct OpenTestbed {
  // A gpud elsewhere has no name and no paths.
  testbed::Testbed testbed;
  std::unique_ptr<testbed::AdminClient> client;
};

// The options that choose a testbed: --name, --dir for a gpud that was started
// by hand, or --gpud for one that listens on TCP.
class TestbedOption {
 public:
  explicit TestbedOption(Arguments& arguments);
  // Errors: NotFound, InvalidArgument (several testbeds are up, or the files
  // that go with --gpud are wrong).
  absl::StatusOr<OpenTestbed> Open() const;

 private:
  std::string name_;
  std::string directory_;
  std::optional<GpudOption> gpud_;  // once --name and --dir are there
};

// Adds --name, --dir, --gpud and -o, and runs `show` on the testbed that they
// choose.
Run MakeInspection(Arguments& arguments, Console& console,
                   std::function<absl::Status(OpenTestbed&)> show);

// Leaves out trailing ones: "32", "4x4", "2x1x3".
std::string FormatDim3(const v1::Dim3& dim);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_INSPECT_H_
