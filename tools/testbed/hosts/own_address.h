// Where the other hosts find this one, if the topology does not say.
#ifndef CARILLON_TOOLS_TESTBED_HOSTS_OWN_ADDRESS_H_
#define CARILLON_TOOLS_TESTBED_HOSTS_OWN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

// Gives links without an address this machine's: the one from which it reaches
// the etcd at `url`, and the first ports from 4711 on that are free now. Errors:
// Unavailable (no way to etcd), ResourceExhausted (no port).
absl::Status ChooseAddresses(const std::string& url,
                             std::vector<HostPart::Link>& links);

// 0: this machine has the address, and the port is free now; else an errno.
int TryListen(const HostPort& address);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_HOSTS_OWN_ADDRESS_H_
