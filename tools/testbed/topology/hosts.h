// Topologies of several hosts: what each one does of it (docs/mesh.md).
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_HOSTS_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_HOSTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

// What is wrong with it, or nothing.
std::string CheckHostName(std::string_view name);

// "10.0.0.5", "10.0.0.5:4711" or "[::1]:4711". Errors: InvalidArgument.
absl::StatusOr<std::optional<HostPort>> ReadHostAddress(
    const std::string& text);

// "https://HOST:PORT", or "http://" of this machine. Errors: InvalidArgument.
absl::StatusOr<std::string> ReadEtcdMember(const std::string& text);

// Where there is to be an etcd of its own: names it as its only member, once the
// GPU's host has an address.
void AddOwnEtcd(Topology& topology);

// What is wrong with the hosts as a whole. The settings and devices are right by
// themselves.
struct HostProblem {
  enum class Of { kGpu, kMesh, kLinks, kHost, kLink, kDevice };
  Of of;
  size_t index = 0;  // of a host, link or device, in the topology's list
  std::string text;  // a sentence
};
std::vector<HostProblem> CheckHosts(const Topology& topology);

// Whether it lives in simulated time. Its hosts are the model's then, and one
// machine may have all of them.
bool IsSimulated(const Topology& topology);
// What the link of that device takes each way, in simulated time.
Nanoseconds LatencyOf(const Topology& topology, const DeviceEntry& device);

// What `host` does of a topology that CheckHosts() has nothing against. Without
// hosts, or in simulated time, and with `host` empty, that is all of it. Errors:
// InvalidArgument: no host is named, or none that is there, or one that has
// nothing to do; in simulated time, where CheckHosts() does not look at it, what
// a link between machines lacks.
absl::StatusOr<Topology> PartOf(Topology topology, const std::string& host);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_HOSTS_H_
