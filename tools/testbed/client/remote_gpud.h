// A gpud that is reached over TCP, with TLS (docs/security.md).
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/tls_files.h"

namespace carillon::testbed {

struct RemoteGpud {
  HostPort address;
  TlsFiles files;
  TlsPems pems;

  // Reads and judges everything that can be judged here. Errors:
  // InvalidArgument.
  static absl::StatusOr<RemoteGpud> Read(std::string_view address,
                                         const TlsFiles& files);
};

// Why gRPC does not get through to `gpud`, which it does not say itself:
// connects once more, for at most `limit`. Unavailable (no such host, nobody
// listens, no TLS), Unauthenticated (one end does not believe the other's
// certificate), or OK when nothing is wrong now.
absl::Status Diagnose(const RemoteGpud& gpud, std::chrono::milliseconds limit);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_REMOTE_GPUD_H_
