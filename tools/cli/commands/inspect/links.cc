#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/rate.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/topology/keys.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::cli {
namespace {

using Host = testbed::HostPart::Host;

// What one end of a link says of it; nothing: it does not know.
struct Figures {
  std::string state;
  std::optional<uint64_t> connections;
  std::optional<uint64_t> refused;  // the far end's alone
  std::optional<uint64_t> rtt_ns;
  std::optional<uint64_t> in_flight;
  std::optional<uint64_t> replayed;
  std::optional<uint64_t> dropped;
  std::optional<uint64_t> downs;
  std::optional<uint64_t> takeovers;
  std::optional<uint64_t> down_ns;
  std::optional<double> events_per_s;
};

template <class Counters>
std::optional<uint64_t> Find(const Counters& counters, std::string_view name) {
  for (const v1::Counter& counter : counters) {
    if (counter.name() == name) return counter.value();
  }
  return std::nullopt;
}

template <class Counters>
void ReadCounters(const Counters& counters, Figures* figures) {
  figures->connections = Find(counters, "connections");
  figures->in_flight = Find(counters, "in_flight");
  figures->replayed = Find(counters, "replayed");
  figures->dropped = Find(counters, "late_ends");
  figures->downs = Find(counters, "downs");
  figures->takeovers = Find(counters, "takeovers");
  figures->down_ns = Find(counters, "down_ns");
  figures->rtt_ns = Find(counters, "rtt_ns");
  if (figures->rtt_ns == 0u) figures->rtt_ns.reset();  // no ping has come back
}

// Of a host without the GPU: what its gpud knows.
Figures OfNearEnd(const v1::GetStatusResponse& status,
                  const testbed::SnapshotRates& rates) {
  Figures figures{.state = testbed::LinkStateOf(status),
                  .events_per_s = rates.all()};
  for (const v1::LaunchPath& path : status.launch_paths()) {
    ReadCounters(path.counters(), &figures);
  }
  return figures;
}

// Of the GPU's host: what the linkd for that peer shows.
Figures OfFarEnd(const testbed::SnapshotPicture& picture, const Host& peer,
                 const testbed::SnapshotRates& rates) {
  Figures figures{.state = "no linkd"};
  const std::string linkd =
      fmt::format("{}{}", testbed::kLinkdPrefix, peer.name);
  for (const auto& [id, device] : picture.devices()) {
    if (device.name() != linkd) continue;
    if (device.silent_ns() != 0) {
      // What it showed last may be true no more.
      figures.state =
          fmt::format("linkd silent for {}", FormatAge(device.silent_ns()));
      continue;
    }
    ReadCounters(device.counters(), &figures);
    figures.refused = Find(device.counters(), "refused");
    figures.state = Find(device.counters(), "up") == 1u ? "up" : "down";
  }
  for (const std::string& device : peer.devices) {
    if (const auto rate = rates.OfDevice(device)) {
      figures.events_per_s = figures.events_per_s.value_or(0) + *rate;
    }
  }
  return figures;
}

// "2 times, 6.1 s"
std::string DownOf(const Figures& figures) {
  // What was never up has not gone down.
  if (!figures.downs || figures.connections == 0u) return "-";
  if (figures.downs == 0u) return "never";
  return fmt::format("{}, {}", FormatPlural(*figures.downs, "time"),
                     FormatNanoseconds(figures.down_ns.value_or(0)));
}

// Of linkd there are figures alone: its log has the reasons.
std::string StateOf(const Figures& figures, const std::string& peer) {
  const std::string logs =
      fmt::format(": carillon logs {}{}", testbed::kLinkdPrefix, peer);
  if (figures.takeovers.value_or(0) != 0) {
    return fmt::format("{}, taken over {}{}", figures.state,
                       FormatPlural(*figures.takeovers, "time"), logs);
  }
  if (figures.state == "down" && figures.refused.value_or(0) != 0) {
    return fmt::format("down, refused {}{}",
                       FormatPlural(*figures.refused, "time"), logs);
  }
  if (figures.state == "down" && figures.connections == 0u) {
    return fmt::format("down: host {} has not come yet", peer);
  }
  // A near end's may be a long sentence.
  constexpr size_t kMost = 60;
  constexpr std::string_view kRest = "... (all: -o json)";
  if (figures.state.size() <= kMost) return figures.state;
  return figures.state.substr(0, kMost - kRest.size()).append(kRest);
}

Json OrNull(const std::optional<uint64_t>& value) {
  return value ? Json(*value) : Json();
}

absl::Status Show(OpenTestbed& open, const testbed::SnapshotPicture& picture,
                  const testbed::SnapshotRates& rates, Console& console) {
  const auto state = testbed::ReadState(open.testbed.paths.state_file());
  if (!state.ok()) {
    return WithHint(state.status(),
                    "carillon links is for a testbed of this machine that "
                    "carillon up --host has brought up");
  }
  ASSIGN_OR_RETURN(const auto status, open.client->GetStatus());
  Json document = {{"links", Json::array()}};
  Table table({"LINK", "STATE", "ENGINE", ">RTT p50", ">IN FLIGHT", ">EVENTS/S",
               ">REPLAYED", ">DROPPED", "DOWN"});
  const auto own = std::ranges::find(state->hosts, state->host, &Host::name);
  const bool has_gpu = own != state->hosts.end() && own->has_gpu;
  for (const Host& peer : state->hosts) {
    if (peer.name == state->host || peer.has_gpu == has_gpu ||
        (has_gpu && peer.devices.empty())) {
      continue;
    }
    const Figures figures =
        has_gpu ? OfFarEnd(picture, peer, rates) : OfNearEnd(status, rates);
    const std::string link = has_gpu
                                 ? fmt::format("{}-{}", peer.name, state->host)
                                 : fmt::format("{}-{}", state->host, peer.name);
    const auto count = [](const std::optional<uint64_t>& value) {
      return value ? FormatCount(*value) : std::string("-");
    };
    document["links"].push_back({{"link", link},
                                 {"state", figures.state},
                                 {"engine", state->engine},
                                 {"rtt_ns", OrNull(figures.rtt_ns)},
                                 {"in_flight", OrNull(figures.in_flight)},
                                 {"events_per_s", ToJson(figures.events_per_s)},
                                 {"replayed", OrNull(figures.replayed)},
                                 {"dropped", OrNull(figures.dropped)},
                                 {"downs", OrNull(figures.downs)},
                                 {"down_ns", OrNull(figures.down_ns)},
                                 {"takeovers", OrNull(figures.takeovers)},
                                 {"connections", OrNull(figures.connections)}});
    table.AddRow(link, StateOf(figures, peer.name), state->engine,
                 figures.rtt_ns ? FormatNanoseconds(*figures.rtt_ns) : "-",
                 count(figures.in_flight), FormatRate(figures.events_per_s),
                 count(figures.replayed), count(figures.dropped),
                 DownOf(figures));
  }
  console.Print(document, table, "no link: all of this testbed is on one host");
  return absl::OkStatus();
}

}  // namespace

Run MakeLinks(Arguments& arguments, Console& console) {
  auto inspection = std::make_shared<Inspection>("links", arguments, console);
  return [inspection, &console] {
    return inspection->RunOnPictures(
        [&](OpenTestbed& open, const auto& picture, const auto& rates) {
          return Show(open, picture, rates, console);
        });
  };
}

}  // namespace carillon::cli
