#include "tools/cli/commands/inspect/gpud_option.h"

#include <cstdlib>

#include "base/status.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
namespace {

std::string OrEnvironment(const std::string& given, const char* variable) {
  const char* const value = std::getenv(variable);
  return given.empty() && value != nullptr ? value : given;
}

}  // namespace

GpudOption::GpudOption(Arguments& arguments) {
  arguments
      .Text("--gpud", address_,
            "Instead: a gpud that listens on TCP, on any machine")
      .Placeholder("HOST:PORT")
      .Excludes("--name")
      .Excludes("--dir");
  arguments
      .Text("--tls-ca", files_.ca,
            "With --gpud: whose certificate it shows ($CARILLON_TLS_CA)")
      .Placeholder("FILE");
  arguments
      .Text("--tls-cert", files_.certificate,
            "With --gpud: your certificate ($CARILLON_TLS_CERT)")
      .Placeholder("FILE");
  arguments
      .Text("--tls-key", files_.key, "With --gpud: its key ($CARILLON_TLS_KEY)")
      .Placeholder("FILE");
}

absl::StatusOr<testbed::RemoteGpud> GpudOption::Read() const {
  auto gpud = testbed::RemoteGpud::Read(
      address_,
      {.certificate = OrEnvironment(files_.certificate, "CARILLON_TLS_CERT"),
       .key = OrEnvironment(files_.key, "CARILLON_TLS_KEY"),
       .ca = OrEnvironment(files_.ca, "CARILLON_TLS_CA")});
  if (gpud.ok()) return gpud;
  return WithHint(gpud.status(),
                  "PEM files by --tls-ca, --tls-cert and --tls-key, or "
                  "CARILLON_TLS_CA, ..._CERT and ..._KEY; docs/security.md");
}

absl::Status GpudOption::CheckUnused() const {
  if (!files_.any()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tls-ca, --tls-cert and --tls-key go with --gpud HOST:PORT: a testbed "
      "of this machine is reached without TLS");
}

}  // namespace carillon::cli
