// The option --gpud, which reaches a gpud over TCP.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_GPUD_OPTION_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_GPUD_OPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "tools/cli/arguments.h"
#include "tools/testbed/client/remote_gpud.h"

namespace carillon::cli {

// --gpud HOST:PORT, in place of a testbed of this machine, and the files that
// go with it: --tls-ca, --tls-cert, --tls-key, or $CARILLON_TLS_CA and so on.
class GpudOption {
 public:
  // Make it after --name and --dir, which exclude it.
  explicit GpudOption(Arguments& arguments);

  bool given() const { return !address_.empty(); }
  // Errors: InvalidArgument (says what is missing or wrong).
  absl::StatusOr<testbed::RemoteGpud> Read() const;
  // InvalidArgument if files are named without --gpud.
  absl::Status CheckUnused() const;

 private:
  std::string address_;
  TlsFiles files_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_GPUD_OPTION_H_
