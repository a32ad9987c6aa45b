// An etcd for one sweep on this machine: one member, on a socket of its own.
#ifndef CARILLON_TOOLS_CLI_SWEEP_OWN_ETCD_H_
#define CARILLON_TOOLS_CLI_SWEEP_OWN_ETCD_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"

namespace carillon::cli {

// It dies with the thread that starts it, and leaves nothing.
class OwnEtcd {
 public:
  // Answers when this returns. Errors: NotFound (no program etcd), Unavailable
  // (with what it wrote), Cancelled (`stopped` said so).
  static absl::StatusOr<OwnEtcd> Start(const std::function<bool()>& stopped);

  // As mesh::Etcd::Make() takes it. Only this user gets through to it.
  const std::string& address() const { return address_; }

 private:
  OwnEtcd(TempDirectory directory, Subprocess process, std::string address)
      : directory_(std::move(directory)),
        process_(std::move(process)),
        address_(std::move(address)) {}

  TempDirectory directory_;
  Subprocess process_;
  std::string address_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_OWN_ETCD_H_
