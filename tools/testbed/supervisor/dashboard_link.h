// The link of the dashboard that a testbed's supervisor runs: its processes and
// the command line find it in the testbed's directory.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_DASHBOARD_LINK_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_DASHBOARD_LINK_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"

namespace carillon::testbed {

struct DashboardLink {
  std::string url;    // "http://127.0.0.1:34567/"
  std::string token;  // a viewer's
  pid_t pid = 0;      // of the dashboard
};

// "http://127.0.0.1:34567/#token=0123...": browsers keep what follows the # to
// themselves.
std::string LinkOf(const std::string& url, const std::string& token);

// The files: the token alone, as Prometheus' `credentials_file` wants it, and
// the address with the pid. Both have mode 0600.
std::string DashboardTokenFile(const TestbedPaths& paths);
std::string DashboardAddressFile(const TestbedPaths& paths);

// Writes this process's link; each file changes at once, the token's first.
// Errors: PermissionDenied, ResourceExhausted.
absl::Status WriteDashboardLink(const TestbedPaths& paths, DashboardLink link);
// Errors: NotFound; FailedPrecondition if WriteDashboardLink() did not write
// them.
absl::StatusOr<DashboardLink> ReadDashboardLink(const TestbedPaths& paths);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_DASHBOARD_LINK_H_
