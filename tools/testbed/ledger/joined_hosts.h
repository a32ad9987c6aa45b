// The timelines of several hosts' testbeds as one, in the time of the GPU's host
// (docs/mesh.md).
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_JOINED_HOSTS_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_JOINED_HOSTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shm/recorder/peer_clock.h"
#include "tools/testbed/ledger/timeline_view.h"

namespace carillon::testbed {

struct HostTimeline {
  std::string directory;
  Timeline timeline;
  // Of a host whose events go by link; the GPU's has none.
  std::optional<shm::PeerClock> clock;
};

// Errors: InvalidArgument: its clock cannot be read.
absl::StatusOr<HostTimeline> ReadHostTimeline(const std::string& directory);

// Each host was judged by itself. What the GPU's host rang for another host's
// device is that host's event, and counts there; only what breaks a rule counts
// on both. Processes are called HOST/NAME. Errors: FailedPrecondition: these are
// not the GPU's host and others that have a link to it.
absl::StatusOr<Timeline> JoinHosts(std::vector<HostTimeline> hosts);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_JOINED_HOSTS_H_
