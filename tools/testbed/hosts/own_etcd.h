// The etcd of a testbed whose topology says `etcd: own`: on the GPU's host, as
// long as that is up.
#ifndef CARILLON_TOOLS_TESTBED_HOSTS_OWN_ETCD_H_
#define CARILLON_TOOLS_TESTBED_HOSTS_OWN_ETCD_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "mesh/etcd/etcd.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

// A thread starts it, and starts it again each time that it ends.
class OwnEtcdKeeper {
 public:
  struct Options {
    std::function<void(const std::string&)> say;  // from any thread
    std::function<bool()> stopped;                // while it starts
  };

  // Answers when this returns. Errors: those of mesh::OwnEtcd; AlreadyExists (the
  // host is up elsewhere, or its port is taken).
  static absl::StatusOr<std::unique_ptr<OwnEtcdKeeper>> Start(
      const Topology& topology, const TestbedPaths& paths, Options options);
  // Ends it, once whoever takes all hosts down has seen the last of them go, and
  // removes what it had.
  ~OwnEtcdKeeper();

  // As it is now. Thread safe.
  ProcessRecord record() const;
  // Readable from when record() changes until it is called.
  int changed_fd() const { return changed_.get(); }

 private:
  OwnEtcdKeeper(std::string folder, std::unique_ptr<mesh::Etcd> etcd,
                std::string want, ProcessRecord record);
  // From the thread.
  void Change(const std::function<void(ProcessRecord&)>& change);

  const std::string folder_;
  const std::unique_ptr<mesh::Etcd> etcd_;
  const std::string want_;
  const UniqueFd changed_;
  mutable Mutex mutex_;
  ProcessRecord record_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_HOSTS_OWN_ETCD_H_
