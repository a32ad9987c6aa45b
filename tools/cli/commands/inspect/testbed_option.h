// The options by which a command chooses a testbed.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_TESTBED_OPTION_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_TESTBED_OPTION_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "tools/cli/arguments.h"
#include "tools/testbed/client/remote_gpud.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

struct ChosenTestbed {
  // For a gpud elsewhere, the name is its address, and there are no paths.
  testbed::Testbed testbed;
  std::optional<testbed::RemoteGpud> gpud;
};

// --name, or --dir, or --gpud HOST:PORT for a gpud that listens on TCP, and the
// files that go with it: --tls-ca, --tls-cert, --tls-key, or $CARILLON_TLS_CA
// and so on.
class TestbedOption {
 public:
  // `directory_help` says what --dir may be.
  TestbedOption(Arguments& arguments, const std::string& directory_help);
  // `find` knows testbeds by their --name. Errors: its own; NotFound,
  // InvalidArgument (the files that go with --gpud are wrong or missing, or
  // there is no --gpud).
  absl::StatusOr<ChosenTestbed> Choose(
      absl::StatusOr<testbed::Testbed> (*find)(const std::string& name)) const;

 private:
  absl::StatusOr<testbed::RemoteGpud> ReadGpud() const;

  std::string name_;
  std::string directory_;
  std::string gpud_;
  TlsFiles files_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_TESTBED_OPTION_H_
