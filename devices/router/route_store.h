// The routes of a router, as its kernels look them up: the tables of both
// versions of IP, and the next hops that they name.
#ifndef CARILLON_DEVICES_ROUTER_ROUTE_STORE_H_
#define CARILLON_DEVICES_ROUTER_ROUTE_STORE_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/router/route_file.h"
#include "kernels/forwarding/fib.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

// A next hop keeps its number for as long as routes name it, so new routes change
// only what is new of the tables. Not thread safe.
class RouteStore {
 public:
  // Leaves room for a quarter more groups than these routes need, and for twice
  // as many next hops, or for kLeastRoom. Errors: those of forwarding::Fib.
  static absl::StatusOr<RouteStore> Make(const Routes& routes);

  // Has these routes and no others from now on. Requires that forwarders use the
  // routes of the last Replace() and none from before: the numbers of those are
  // given away. Errors, without any change: ResourceExhausted (the
  // room is used up), and those of forwarding::Fib.
  absl::Status Replace(const Routes& routes);

  const forwarding::Fib& fib(forwarding::Family family) const {
    return tables_[static_cast<size_t>(family)].fib;
  }
  // The groups for which a table needs room.
  uint32_t groups(forwarding::Family family) const {
    return tables_[static_cast<size_t>(family)].groups;
  }
  // By number; always as many.
  std::span<const forwarding::NextHop> next_hops() const { return next_hops_; }

  static constexpr uint32_t kLeastRoom = 1024;

 private:
  using HopBytes = std::array<uint8_t, sizeof(forwarding::NextHop)>;
  struct Table {
    forwarding::Fib fib;
    uint32_t groups;
    std::vector<forwarding::Route> routes;  // sorted, each prefix once
  };

  RouteStore() = default;
  static absl::StatusOr<Table> MakeTable(
      forwarding::Family family, const std::vector<forwarding::Route>& routes);
  // Gives each of these a number.
  absl::StatusOr<std::vector<uint32_t>> Number(
      const std::vector<forwarding::NextHop>& hops);

  std::vector<Table> tables_;  // by Family
  std::vector<forwarding::NextHop> next_hops_;
  std::map<HopBytes, uint32_t> numbers_;
  std::vector<uint32_t> free_numbers_;
  std::set<HopBytes> in_use_;  // by the routes
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTE_STORE_H_
