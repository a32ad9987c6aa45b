#include "devices/router/route_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/option_table.h"
#include "base/read_file.h"
#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::NextHop;
using forwarding::Prefix;

// ether_aton() would ignore what follows an address.
absl::Status ReadMac(const std::string& text, uint8_t (&mac)[6]) {
  const std::vector<std::string> bytes = absl::StrSplit(text, ':');
  bool right = bytes.size() == std::size(mac);
  for (size_t i = 0; right && i < bytes.size(); ++i) {
    const char* const begin = bytes[i].data();
    const char* const end = begin + bytes[i].size();
    right = bytes[i].size() <= 2 &&
            std::from_chars(begin, end, mac[i], 16).ptr == end && begin != end;
  }
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is no Ethernet address such as 02:00:00:00:00:01", text));
}

absl::StatusOr<uint8_t> PortOf(const std::string& name,
                               std::span<const std::string> ports) {
  if (name.empty() && ports.size() == 1) return uint8_t{0};
  const auto found = std::ranges::find(ports, name);
  if (!name.empty() && found != ports.end()) {
    return static_cast<uint8_t>(found - ports.begin());
  }
  return absl::InvalidArgumentError(
      fmt::format("{}; the ports are {}",
                  name.empty() ? "'dev' must name the route's port"
                               : fmt::format("there is no port '{}'", name),
                  fmt::join(ports, ", ")));
}

absl::StatusOr<std::pair<Prefix, NextHop>> ParseLine(
    const std::string& line, std::span<const std::string> ports) {
  std::istringstream words(line);
  std::string prefix_text, to, from, word, mtu, port, more;
  words >> prefix_text >> to >> from;
  words >> word;
  if (word != "dev") std::swap(word, mtu);
  if (word.empty()) words >> word;
  if (word == "dev") words >> port;
  words >> more;
  if (from.empty() || !more.empty() || (!word.empty() && port.empty())) {
    return absl::InvalidArgumentError(
        "a route is a prefix, two Ethernet addresses, and perhaps an MTU, and "
        "'dev' and a port");
  }
  ASSIGN_OR_RETURN(const Prefix prefix, forwarding::ParsePrefix(prefix_text));
  NextHop hop{};
  RETURN_IF_ERROR(ReadMac(to, hop.to));
  RETURN_IF_ERROR(ReadMac(from, hop.from));
  if (!mtu.empty()) {
    ASSIGN_OR_RETURN(const uint64_t bytes, ReadInteger(mtu, 68, 65535));
    hop.mtu = static_cast<uint16_t>(bytes);
  }
  ASSIGN_OR_RETURN(hop.port[1], PortOf(port, ports));
  return std::pair{prefix, hop};
}

}  // namespace

absl::StatusOr<Routes> ParseRoutes(std::string_view text,
                                   std::span<const std::string> ports) {
  Routes routes;
  std::map<std::array<uint8_t, sizeof(NextHop)>, uint32_t> numbers;
  std::map<std::string, uint64_t> lines_of;  // of the prefixes
  std::istringstream lines{std::string(text)};
  std::string line;
  for (uint64_t number = 1; std::getline(lines, line); ++number) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    const auto route = ParseLine(line, ports);
    if (!route.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("line {}: {}", number, route.status().message()));
    }
    const auto& [prefix, hop] = *route;
    const auto [line_of, once] =
        lines_of.try_emplace(forwarding::ToString(prefix), number);
    if (!once) {
      return absl::InvalidArgumentError(
          fmt::format("line {}: {} has a route already, in line {}", number,
                      line_of->first, line_of->second));
    }
    std::array<uint8_t, sizeof(NextHop)> bytes;
    std::memcpy(bytes.data(), &hop, sizeof(hop));
    const auto [entry, is_new] = numbers.try_emplace(
        bytes, static_cast<uint32_t>(routes.next_hops.size()));
    if (is_new) routes.next_hops.push_back(hop);
    (prefix.family == forwarding::Family::kIpv4 ? routes.ipv4 : routes.ipv6)
        .push_back({prefix, entry->second});
  }
  return routes;
}

absl::StatusOr<Routes> ReadRoutes(const std::string& path,
                                  std::span<const std::string> ports) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "file of routes"));
  auto routes = ParseRoutes(text, ports);
  if (routes.ok()) return routes;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path, routes.status().message()));
}

}  // namespace carillon::router
