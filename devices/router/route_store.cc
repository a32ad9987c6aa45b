#include "devices/router/route_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Fib;
using forwarding::NextHop;
using forwarding::Prefix;
using forwarding::Route;

// From so many routes on, a first level of 24 bits is worth its 128 MiB.
constexpr size_t kManyRoutes = 10'000;

bool Before(const Route& a, const Route& b) {
  return std::pair(a.prefix.address, a.prefix.length) <
         std::pair(b.prefix.address, b.prefix.length);
}

// The routes with these numbers of their next hops, in order; of equal prefixes
// the last.
std::vector<Route> Sorted(std::vector<Route> routes,
                          std::span<const uint32_t> numbers) {
  for (Route& route : routes) route.next_hop = numbers[route.next_hop];
  std::reverse(routes.begin(), routes.end());
  std::stable_sort(routes.begin(), routes.end(), Before);
  const auto same = [](const Route& a, const Route& b) {
    return a.prefix == b.prefix;
  };
  routes.erase(std::unique(routes.begin(), routes.end(), same), routes.end());
  return routes;
}

// Brings `fib` from the one list to the other. On an error it is between them.
absl::Status Change(Fib& fib, std::span<const Route> from,
                    std::span<const Route> to) {
  const auto missing_in = [](std::span<const Route> routes, const Route& one) {
    const auto at = std::lower_bound(routes.begin(), routes.end(), one, Before);
    return at == routes.end() || at->prefix != one.prefix;
  };
  for (const Route& route : from) {
    if (missing_in(to, route)) RETURN_IF_ERROR(fib.Remove(route.prefix));
  }
  for (const Route& route : to) {
    const auto at = std::lower_bound(from.begin(), from.end(), route, Before);
    if (at != from.end() && at->prefix == route.prefix &&
        at->next_hop == route.next_hop) {
      continue;
    }
    RETURN_IF_ERROR(fib.Insert(route));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RouteStore::Table> RouteStore::MakeTable(
    Family family, const std::vector<Route>& routes) {
  const uint32_t first_bits = routes.size() >= kManyRoutes ? 24 : 16;
  Fib needed(family, forwarding::kMaxGroups, first_bits);
  RETURN_IF_ERROR(needed.Replace(routes));
  const uint32_t in_use = needed.groups_in_use();
  const uint32_t groups = std::min(in_use + std::max(in_use / 4, kLeastRoom),
                                   forwarding::kMaxGroups);
  return Table{
      .fib = Fib(family, groups, first_bits), .groups = groups, .routes = {}};
}

absl::StatusOr<RouteStore> RouteStore::Make(const Routes& routes) {
  RouteStore store;
  for (const auto& [family, list] : {std::pair(Family::kIpv4, &routes.ipv4),
                                     std::pair(Family::kIpv6, &routes.ipv6)}) {
    ASSIGN_OR_RETURN(Table table, MakeTable(family, *list));
    store.tables_.push_back(std::move(table));
  }
  store.next_hops_.resize(
      std::max<size_t>(2 * routes.next_hops.size(), kLeastRoom));
  for (size_t i = store.next_hops_.size(); i > 0; --i) {
    store.free_numbers_.push_back(static_cast<uint32_t>(i - 1));
  }
  RETURN_IF_ERROR(store.Replace(routes));
  return store;
}

absl::StatusOr<std::vector<uint32_t>> RouteStore::Number(
    const std::vector<NextHop>& hops) {
  std::erase_if(numbers_, [&](const auto& one) {
    if (in_use_.contains(one.first)) return false;
    free_numbers_.push_back(one.second);
    return true;
  });
  std::vector<uint32_t> numbers;
  for (const NextHop& hop : hops) {
    const auto [entry, is_new] =
        numbers_.try_emplace(std::bit_cast<HopBytes>(hop), 0);
    if (is_new) {
      if (free_numbers_.empty()) {
        numbers_.erase(entry);
        return absl::ResourceExhaustedError(fmt::format(
            "{} next hops find no room: with those in use until now "
            "there may be {}; restart the router",
            hops.size(), next_hops_.size()));
      }
      entry->second = free_numbers_.back();
      free_numbers_.pop_back();
      next_hops_[entry->second] = hop;
    }
    numbers.push_back(entry->second);
  }
  return numbers;
}

absl::Status RouteStore::Replace(const Routes& routes) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers,
                   Number(routes.next_hops));
  std::array<std::vector<Route>, 2> lists = {Sorted(routes.ipv4, numbers),
                                             Sorted(routes.ipv6, numbers)};
  for (size_t i = 0; i < lists.size(); ++i) {
    const absl::Status changed =
        Change(tables_[i].fib, tables_[i].routes, lists[i]);
    if (changed.ok()) continue;
    for (size_t k = 0; k <= i; ++k) {
      // They were there before, so there is room.
      RETURN_IF_ERROR(tables_[k].fib.Replace(tables_[k].routes));
    }
    return changed;
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    tables_[i].routes = std::move(lists[i]);
  }
  in_use_.clear();
  for (const NextHop& hop : routes.next_hops) {
    in_use_.insert(std::bit_cast<HopBytes>(hop));
  }
  return absl::OkStatus();
}

}  // namespace carillon::router
