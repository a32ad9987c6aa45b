// Runs a testbed from its topology to its end.
#ifndef CARILLON_TOOLS_TESTBED_TESTBED_RUN_H_
#define CARILLON_TOOLS_TESTBED_TESTBED_RUN_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/own_etcd.h"
#include "tools/testbed/supervisor/readiness.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/supervisor.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

// What to bring up.
struct UpOptions {
  // Empty: ./carillon.yaml if it exists, else the demo's topology.
  std::string file;
  // Empty: the name in the file.
  std::string name;
  // Which of the topology's hosts this one is; empty: it has none.
  std::string host;
  // Bring-up fails if nothing becomes ready for this long.
  double timeout_s = 15;
  // Makes a board of faults even if the topology does not say `faults: true`.
  bool faults = false;
  // A process that was ready for so long has recovered: its row of restarts
  // ends, and with it the wait that doubles.
  double restart_proven_s = 10;
};

// Whether this process can have the descriptors and threads that a run with so
// many devices takes, gRPC's among them, which would wait for them for ever.
// Errors: ResourceExhausted, with what can be had and the limit to raise.
absl::Status CheckHeadroomOfRun(size_t devices);

using Say = std::function<void(const std::string&)>;

// A supervisor with everything that it needs. Make it before gRPC starts a
// thread.
class TestbedRun {
 public:
  // Makes and locks the directory, but starts nothing. A host that etcd knows
  // takes its place there before, and waits for the host with the GPU; `say` is
  // then called from two threads. Errors:
  // those of CheckHeadroomOfRun(), LockedDirectory::Create(), PlanLaunch() and
  // HostRegistration.
  static absl::StatusOr<std::unique_ptr<TestbedRun>> Make(
      const Topology& topology, const std::string& source,
      const UpOptions& options, Say say);

  // As the supervisor's; the other hosts see how it ends.
  absl::Status BringUp() { return supervisor_->BringUp(); }
  // Takes the testbed down. FailedPrecondition if something in it had failed;
  // Aborted if another supervisor has this host.
  absl::Status End();

  Supervisor& supervisor() { return *supervisor_; }
  StopSignals& requests() { return requests_; }

 private:
  TestbedRun() = default;
  absl::Status Join(Topology& topology, const TestbedPaths& paths,
                    const UpOptions& options, Say say);
  // Its part among the hosts, before the directory may be the next run's.
  void Leave(const absl::Status& failure);

  StopSignals requests_;
  // Null: there is none, or it has ended.
  std::unique_ptr<OwnEtcdKeeper> own_etcd_;
  std::unique_ptr<HostRegistration> registration_;
  absl::Status lost_;  // what registration_ said at its end
  std::unique_ptr<ReadinessProbe> probe_;
  std::unique_ptr<Supervisor> supervisor_;
};

// The document that `up -o json` prints.
Json UpDocument(const Supervisor& supervisor);

// TestbedRun::End() without other hosts.
absl::Status EndRun(Supervisor& supervisor);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TESTBED_RUN_H_
