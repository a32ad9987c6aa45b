// An etcd that this process starts: one member, whose clients are this user or,
// by TLS, those who show a certificate.
#ifndef CARILLON_MESH_ETCD_OWN_ETCD_H_
#define CARILLON_MESH_ETCD_OWN_ETCD_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/subprocess.h"
#include "base/tls_files.h"

namespace carillon::mesh {

// It dies with the thread that starts it.
class OwnEtcd {
 public:
  struct Options {
    // For its data and its sockets; is there, and goes with its owner. What an
    // etcd before has left in it is known again.
    std::string folder;
    std::string log_path;
    struct Listener {
      HostPort address;
      TlsFiles tls;      // absolute
      std::string name;  // of its certificate
    };
    // Without it, it is a socket in `folder`.
    std::optional<Listener> listener;
  };

  // Answers when this returns. Errors: NotFound (no program etcd), Unavailable
  // (with what it has written), Cancelled (`stopped` said so).
  static absl::StatusOr<OwnEtcd> Start(const Options& options,
                                       const std::function<bool()>& stopped);

  // As Etcd::Make() takes it.
  const std::string& address() const { return address_; }
  Subprocess& process() { return process_; }

 private:
  OwnEtcd(Subprocess process, std::string address)
      : process_(std::move(process)), address_(std::move(address)) {}

  Subprocess process_;
  std::string address_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_ETCD_OWN_ETCD_H_
