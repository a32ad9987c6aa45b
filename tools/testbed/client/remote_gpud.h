// The address and certificates of a gpud that is reached over TCP with TLS
// (docs/security.md).
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/tls_files.h"

namespace carillon::testbed {

struct RemoteGpud {
  HostPort address;
  TlsFiles files;
  TlsPems pems;

  // Reads and checks everything that can be checked here. Errors:
  // InvalidArgument.
  static absl::StatusOr<RemoteGpud> Read(std::string_view address,
                                         const TlsFiles& files);
};

// Finds out why gRPC cannot reach `gpud`, which gRPC itself does not say:
// connects once more, for at most `limit`. Unavailable (no such host, no
// listener, no TLS), Unauthenticated (one end does not accept the other's
// certificate), or OK if nothing is wrong now.
absl::Status Diagnose(const RemoteGpud& gpud, std::chrono::milliseconds limit);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_
