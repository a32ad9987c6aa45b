#include "tools/cli/commands/inspect/testbed_option.h"

#include <unistd.h>

#include <cstdlib>

#include "base/status.h"
#include "tools/cli/command.h"
#include "tools/testbed/supervisor/directory.h"

namespace carillon::cli {
namespace {

std::string OrEnvironment(const std::string& given, const char* variable) {
  const char* const value = std::getenv(variable);
  return given.empty() && value != nullptr ? value : given;
}

}  // namespace

TestbedOption::TestbedOption(Arguments& arguments,
                             const std::string& directory_help) {
  AddNameOption(arguments, name_);
  arguments.Text("--dir DIR", directory_, directory_help).Excludes("--name");
  arguments
      .Text("--gpud HOST:PORT", gpud_,
            "Instead: a gpud that listens on TCP, on any machine")
      .Excludes("--name")
      .Excludes("--dir");
  arguments.Text("--tls-ca FILE", files_.ca,
                 "With --gpud: whose certificate it shows ($CARILLON_TLS_CA)");
  arguments.Text("--tls-cert FILE", files_.certificate,
                 "With --gpud: your certificate ($CARILLON_TLS_CERT)");
  arguments.Text("--tls-key FILE", files_.key,
                 "With --gpud: its key ($CARILLON_TLS_KEY)");
}

absl::StatusOr<testbed::RemoteGpud> TestbedOption::ReadGpud() const {
  auto gpud = testbed::RemoteGpud::Read(
      gpud_,
      {.certificate = OrEnvironment(files_.certificate, "CARILLON_TLS_CERT"),
       .key = OrEnvironment(files_.key, "CARILLON_TLS_KEY"),
       .ca = OrEnvironment(files_.ca, "CARILLON_TLS_CA")});
  if (gpud.ok()) return gpud;
  return WithHint(gpud.status(),
                  "PEM files by --tls-ca, --tls-cert and --tls-key, or "
                  "CARILLON_TLS_CA, ..._CERT and ..._KEY; docs/security.md");
}

absl::StatusOr<ChosenTestbed> TestbedOption::Choose(
    absl::StatusOr<testbed::Testbed> (*find)(const std::string& name)) const {
  ChosenTestbed chosen{.testbed = {directory_, TestbedPaths(directory_), {}}};
  if (!gpud_.empty()) {
    ASSIGN_OR_RETURN(chosen.gpud, ReadGpud());
    chosen.testbed.name = chosen.gpud->address.ToString();
  } else if (files_.any()) {
    return absl::InvalidArgumentError(
        "--tls-ca, --tls-cert and --tls-key go with --gpud HOST:PORT: a "
        "testbed of this machine is reached without TLS");
  } else if (directory_.empty()) {
    ASSIGN_OR_RETURN(chosen.testbed, find(name_));
  } else {
    // Root may look into everybody's.
    const absl::Status owned = testbed::CheckDirectoryOwner(directory_);
    if (!owned.ok() && !(absl::IsPermissionDenied(owned) && geteuid() == 0)) {
      return owned;
    }
  }
  return chosen;
}

}  // namespace carillon::cli
