// Reads a file of routes. A line is empty, begins with '#', or is
//
//   PREFIX TO FROM [MTU]
//
// for example "10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:ff 1500": the next
// hop's Ethernet address, that of the interface to it, and the bytes of the
// largest IP packet.
#ifndef CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_
#define CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/forwarding/fib.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

struct Routes {
  std::vector<forwarding::Route> ipv4;
  std::vector<forwarding::Route> ipv6;
  // What the routes' numbers name; of lines with the same, one.
  std::vector<forwarding::NextHop> next_hops;
};

// Error: InvalidArgument, with the number of the line.
absl::StatusOr<Routes> ParseRoutes(std::string_view text);

// `path` names it in errors. Errors: also those of ReadFile().
absl::StatusOr<Routes> ReadRoutes(const std::string& path);

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_
