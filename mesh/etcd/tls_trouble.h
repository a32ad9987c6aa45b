// Why this host and an etcd that another host starts do not agree on TLS: gRPC
// only says that etcd does not answer.
#ifndef CARILLON_MESH_ETCD_TLS_TROUBLE_H_
#define CARILLON_MESH_ETCD_TLS_TROUBLE_H_

#include <string>

#include "absl/status/status.h"
#include "base/host_port.h"
#include "base/tls_files.h"

namespace carillon::mesh {

// Makes a connection to `etcd`, which shows the certificate of `host`, and ends
// it; takes two seconds at most. OK: nobody is there, or no trouble is seen.
// Errors: PermissionDenied, with whose certificate does not do, and why; those
// of ReadTlsFiles().
absl::Status FindTlsTrouble(const HostPort& etcd, const TlsFiles& files,
                            const std::string& host);

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_ETCD_TLS_TROUBLE_H_
