// A testbed as a file describes it: the GPU and the devices around it.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_TOPOLOGY_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/host_port.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {

// Whether the supervisor starts a process again.
enum class RestartPolicy {
  kNever,
  kOnFailure,  // it ended by a signal, or with another exit code than 0
};
// The word in the file: "on_failure".
const char* ToText(RestartPolicy policy);

struct DeviceEntry {
  std::string name;
  const DeviceKind* kind = nullptr;
  std::vector<Setting> settings;
  // exec only: the program and its arguments. A program with a slash is
  // relative to the topology file's folder, others are looked up in PATH.
  std::vector<std::string> command;
  // Bring-up waits until the device reports that it is ready.
  bool wait_ready = true;
  RestartPolicy restart = RestartPolicy::kNever;
  // The user of this machine whom its process runs as; empty: the testbed's.
  std::string user;
  uint64_t weight = 1;
  uint64_t max_priority = gpud::kHighestPriority;
  std::string host;  // where there are hosts
};

struct HostEntry {
  std::string name;
  // Of the GPU's host: where linkds listen, HOST in numbers. The first one has
  // this port, the next one the next.
  std::optional<HostPort> address;
  std::string node;  // of Slurm's; empty: any
};

// Between the GPU's host and another one, in simulated time.
struct LinkEntry {
  std::string from;
  std::string to;
  Nanoseconds latency = 0;  // each way
};

// What one host does of a topology with hosts (hosts.h).
struct HostPart {
  struct Host {
    std::string name;
    std::string address;  // empty: none
    bool has_gpu = false;
    std::vector<std::string> devices;
  };
  struct Link {
    std::string peer;
    // Where that link's linkd listens. No host in it: etcd tells.
    HostPort address;
  };
  std::string host;
  bool has_gpu = false;
  std::string engine;  // of all links
  // On the GPU's host one for each other host that has devices; on another host
  // the one to the GPU's.
  std::vector<Link> links;
  std::vector<Host> hosts;  // all of them
  // Those of other hosts, which linkd attaches on the GPU's.
  std::vector<DeviceEntry> other_devices;
};

struct Topology {
  std::string name;
  std::vector<Setting> gpu;  // the keys of gpu and of gpu.model
  // The records of every process's flight recorder; 0: as the environment says.
  uint64_t record = 0;
  // Whether there is a board of faults (shm/faults), for `carillon fault`.
  bool faults = false;
  // Whether the supervisor runs a dashboard, and on which port; 0: any free one.
  bool dashboard = false;
  uint64_t dashboard_port = 0;
  RestartPolicy gpu_restart = RestartPolicy::kNever;
  std::vector<DeviceEntry> devices;
  // Empty: one machine, as ever. In the file's order.
  std::vector<HostEntry> hosts;
  std::string gpu_host;
  std::vector<LinkEntry> links;
  std::vector<Setting> mesh;      // the keys of mesh and of mesh.tls
  std::vector<std::string> etcd;  // URLs of its members
  // `etcd: own`: the GPU's host has it, and starts it.
  bool own_etcd = false;
  // Set by PartOf(): `devices` are those of this host.
  std::optional<HostPart> part;
};

// Sets `key` (which the kind must have), replacing its value.
void SetNumber(DeviceEntry& device, std::string_view key, uint64_t value);

// The same for a text key of `gpu`.
void SetGpuText(Topology& topology, std::string_view key,
                const std::string& value);

// What keeps the device from running as its `user` in this testbed, whoever
// brings it up; or nothing.
std::string CheckUser(const Topology& topology, const DeviceEntry& device);

// A name has 1 to 32 characters of [a-z0-9_-], and is not one that Carillon
// uses itself. Returns what is wrong, or nothing.
std::string CheckName(std::string_view name);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_TOPOLOGY_H_
