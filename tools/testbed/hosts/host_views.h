// All hosts of a testbed, as etcd shows them to any machine that has the
// topology.
#ifndef CARILLON_TOOLS_TESTBED_HOSTS_HOST_VIEWS_H_
#define CARILLON_TOOLS_TESTBED_HOSTS_HOST_VIEWS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mesh/etcd/etcd.h"
#include "tools/testbed/hosts/host_record.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

struct HostView {
  std::string name;
  // While its supervisor lives, or etcd thinks so.
  std::optional<HostRecord> record;
  std::optional<LastOfHost> last;
  std::string damage;  // what is wrong with what etcd has of it

  // "up", "starting", "stopping"; "failed", "gone" (it died, or was cut off),
  // "not up", "damaged".
  std::string State() const;
};

struct HostsView {
  std::vector<HostView> hosts;  // of the topology, in its order; then others
  std::string job;              // of Slurm; empty
};

// Errors: those of Etcd, of CheckSameTestbed() and of ExplainSilence().
absl::StatusOr<HostsView> LookAtHosts(mesh::Etcd& etcd,
                                      const Topology& topology);

// Of a testbed that LookAtHosts() has shown: asks all hosts to end, the GPU's at
// last, and waits until they have gone; then forgets those that were gone or
// failed, and Slurm's job. Errors: DeadlineExceeded, naming those that are there
// still; those of Etcd.
absl::Status EndHosts(mesh::Etcd& etcd, const Topology& topology,
                      std::chrono::seconds patience);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_HOSTS_HOST_VIEWS_H_
