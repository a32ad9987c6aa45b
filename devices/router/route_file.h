// Reads a file of routes. A line is empty, begins with '#', or is
//
//   PREFIX TO FROM [MTU] [dev PORT]
//
// for example "10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:ff 1500 dev wan": the
// next hop's Ethernet address, that of the interface to it, the bytes of the
// largest IP packet, and the port to it. Only a router with one port does not
// need its name.
#ifndef CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_
#define CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_

#include <span>
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

// `ports`: the names of the router's, whose numbers the next hops get. Error:
// InvalidArgument, with the number of the line.
absl::StatusOr<Routes> ParseRoutes(std::string_view text,
                                   std::span<const std::string> ports);

// `path` names it in errors. Errors: also those of ReadFile().
absl::StatusOr<Routes> ReadRoutes(const std::string& path,
                                  std::span<const std::string> ports);

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTE_FILE_H_
