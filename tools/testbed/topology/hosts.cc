#include "tools/testbed/topology/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/status.h"
#include "base/text.h"

namespace carillon::testbed {
namespace {

using Of = HostProblem::Of;

constexpr uint64_t kMaxPort = 65535;
constexpr uint64_t kSecond = 1'000'000'000;

const HostEntry* FindHost(const Topology& topology, std::string_view name) {
  const auto found = std::ranges::find(topology.hosts, name, &HostEntry::name);
  return found == topology.hosts.end() ? nullptr : &*found;
}

size_t IndexOf(const Topology& topology, std::string_view host) {
  return static_cast<size_t>(FindHost(topology, host) - topology.hosts.data());
}

// "a, b"
std::string NamesOf(const Topology& topology) {
  std::vector<std::string_view> names;
  for (const HostEntry& host : topology.hosts) names.push_back(host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const Setting* FindSetting(const std::vector<Setting>& settings,
                           std::string_view key) {
  const auto found = std::ranges::find_if(
      settings, [&](const Setting& one) { return one.option->key == key; });
  return found == settings.end() ? nullptr : &*found;
}

auto EngineOf(const Topology& topology) {
  auto engine = link::LinkdOptions().engine;
  if (const Setting* const name = FindSetting(topology.mesh, "engine")) {
    engine.name = name->text;
  }
  if (const Setting* const trusted = FindSetting(topology.mesh, "trusted")) {
    engine.trusted = trusted->number != 0;
  }
  return engine;
}

// The hosts whose devices have their events run by link, in the file's order.
std::vector<std::string> HostsByLink(const Topology& topology) {
  std::vector<std::string> names;
  for (const HostEntry& host : topology.hosts) {
    if (host.name != topology.gpu_host &&
        std::ranges::count(topology.devices, host.name, &DeviceEntry::host)) {
      names.push_back(host.name);
    }
  }
  return names;
}

std::string CheckPlace(const Topology& topology, const std::string& what,
                       const std::string& host) {
  if (host.empty()) {
    return fmt::format("{} has no host: say which, of {}", what,
                       NamesOf(topology));
  }
  if (FindHost(topology, host) != nullptr) return "";
  return fmt::format("{}: {} is no host of this topology ({})", what,
                     Quote(host), NamesOf(topology));
}

// Of a device that is not on the GPU's host.
std::string CheckRemote(const Topology& topology, const DeviceEntry& device) {
  std::string_view wants = device.kind->not_over_a_link;
  for (const std::string_view key : {"hand_to", "take_from"}) {
    if (FindSetting(device.settings, key) != nullptr) wants = key;
  }
  if (wants.empty()) return "";
  return fmt::format(
      "device {} ({}) is on host {}, and the GPU on {}: no link carries {}; "
      "let "
      "both be on one host (docs/mesh.md)",
      Quote(device.name), device.kind->name, Quote(device.host),
      Quote(topology.gpu_host), wants);
}

// Of a device on the GPU's host.
std::string CheckPartner(const Topology& topology, const DeviceEntry& device) {
  for (const std::string_view key : {"hand_to", "take_from"}) {
    const Setting* const setting = FindSetting(device.settings, key);
    if (setting == nullptr) continue;
    const auto partner =
        std::ranges::find(topology.devices, setting->text, &DeviceEntry::name);
    if (partner == topology.devices.end() || partner->host == device.host) {
      continue;
    }
    return fmt::format(
        "device {}: {} names {}, which is on host {}: no link carries {}; let "
        "both be on one host (docs/mesh.md)",
        Quote(device.name), key, Quote(partner->name), Quote(partner->host),
        key);
  }
  return "";
}

// linkd is one process, which attaches all devices of another host, and itself.
void CheckCounts(const Topology& topology, std::vector<HostProblem>* wrong) {
  const Setting* const set = FindSetting(topology.gpu, "devices_per_process");
  const uint64_t most =
      set == nullptr ? gpud::GpudOptions().devices_per_process : set->number;
  for (size_t i = 0; i < topology.hosts.size(); ++i) {
    const std::string& name = topology.hosts[i].name;
    const auto devices = static_cast<uint64_t>(
        std::ranges::count(topology.devices, name, &DeviceEntry::host));
    if (name == topology.gpu_host || devices < most) continue;
    wrong->push_back(
        {Of::kHost, i,
         fmt::format("host {} has {} devices: gpud of host {} takes {} at most "
                     "of another host; put some on a third one, or set gpu: "
                     "{{devices_per_process: {}}} (at most {})",
                     Quote(name), devices, topology.gpu_host, most - 1,
                     devices + 1, kMaxDevices)});
  }
}

std::string CheckGpusHost(const Topology& topology, size_t links) {
  const HostEntry& host = *FindHost(topology, topology.gpu_host);
  if (topology.own_etcd && topology.etcd.empty()) {
    return fmt::format(
        "etcd: own is on host {}, which has the GPU, on the port before its "
        "address's: give it address: HOST, or HOST:PORT from port 2 on",
        Quote(host.name));
  }
  if (!host.address && topology.etcd.empty()) {
    return fmt::format(
        "host {} has the GPU, and no address where the other hosts find it: "
        "give it address: HOST, or let them find it by mesh: {{etcd: [URL]}}",
        Quote(host.name));
  }
  if (host.address && host.address->port + links > kMaxPort + 1) {
    return fmt::format("address: there are no {} ports from {} on, one a link",
                       links, host.address->port);
  }
  if (topology.devices.size() + links > kMaxDevices) {
    return fmt::format(
        "gpud takes {} devices, and each link is one: here are {} devices and "
        "{} links",
        kMaxDevices, topology.devices.size(), links);
  }
  return "";
}

// The hosts are right.
void CheckLatencies(const Topology& topology, std::vector<HostProblem>* wrong) {
  std::set<std::string> far_hosts;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    const LinkEntry& link = topology.links[i];
    const auto add = [&](std::string_view sentence) {
      wrong->push_back({Of::kLink, i,
                        fmt::format("link from {} to {}: {}", link.from,
                                    link.to, sentence)});
    };
    bool known = true;
    for (const std::string& end : {link.from, link.to}) {
      if (FindHost(topology, end) != nullptr) continue;
      known = false;
      add(fmt::format("{} is no host of this topology ({})", Quote(end),
                      NamesOf(topology)));
    }
    if (!known) continue;
    if ((link.from == topology.gpu_host) == (link.to == topology.gpu_host)) {
      add(
          fmt::format("a link is between host {}, which has the GPU, and "
                      "another one",
                      Quote(topology.gpu_host)));
    } else if (!far_hosts
                    .insert(link.from == topology.gpu_host ? link.to
                                                           : link.from)
                    .second) {
      add("there is another one between these two");
    }
  }
  if (!wrong->empty() || topology.links.empty()) return;
  for (const std::string& host : HostsByLink(topology)) {
    if (far_hosts.contains(host)) continue;
    wrong->push_back(
        {Of::kLinks, 0,
         fmt::format("links leave out host {}, which has devices: say how long "
                     "its link to {} takes, as {{from: {}, to: {}, latency: "
                     "0}}",
                     Quote(host), topology.gpu_host, host, topology.gpu_host)});
  }
}

// What a link between machines needs. The hosts are right.
std::vector<HostProblem> CheckMesh(const Topology& topology) {
  std::vector<HostProblem> wrong;
  const auto add = [&](std::string sentence) {
    wrong.push_back({Of::kMesh, 0, std::move(sentence)});
  };
  const bool tls =
      FindSetting(topology.mesh, MeshKeys(kMeshTlsSection)[0].key) != nullptr;
  const size_t links = HostsByLink(topology).size();
  if (!tls && std::ranges::any_of(topology.etcd, [](std::string_view member) {
        return member.starts_with("https://");
      })) {
    add("etcd by https:// needs mesh: {tls: {certificate: FILE, key: FILE, ca: "
        "FILE}}, by which etcd knows this host");
  }
  if (links == 0) return wrong;
  const auto seconds = [&](std::string_view key, uint64_t otherwise) {
    const Setting* const setting = FindSetting(topology.mesh, key);
    return setting == nullptr ? otherwise : setting->number;
  };
  const link::LinkdOptions defaults;
  const uint64_t timeout = seconds("timeout", defaults.times.timeout / kSecond);
  const uint64_t lease = seconds("lease", defaults.times.lease / kSecond);
  if (lease <= timeout) {
    add(
        fmt::format("mesh: lease {} is to be longer than timeout {}, after "
                    "which a connection is made again",
                    lease, timeout));
  }
  const auto engine = EngineOf(topology);
  if (!engine.Complaint().empty()) {
    add(fmt::format("mesh: engine: {}", engine.Complaint()));
  }
  if (std::string sentence = CheckGpusHost(topology, links);
      !sentence.empty()) {
    wrong.push_back(
        {Of::kHost, IndexOf(topology, topology.gpu_host), std::move(sentence)});
  }
  CheckCounts(topology, &wrong);
  if (!tls) {
    add("hosts need mesh: {tls: {certificate: FILE, key: FILE, ca: FILE}}, "
        "each host its own files (docs/mesh.md); nothing goes between hosts in "
        "plaintext");
  }
  return wrong;
}

}  // namespace

std::string CheckHostName(std::string_view name) {
  if (std::string wrong = CheckName(name); !wrong.empty()) return wrong;
  if (name.size() <= HostKey().max) return "";
  return fmt::format("{} has {} characters; a host's name has {} at most",
                     Quote(name), name.size(), HostKey().max);
}

absl::StatusOr<std::optional<HostPort>> ReadHostAddress(
    const std::string& text) {
  const bool brackets = text.starts_with("[");
  const auto colons = std::ranges::count(text, ':');
  const bool has_port = brackets ? absl::StrContains(text, "]:") : colons == 1;
  const std::string host =
      !brackets && colons > 1 ? fmt::format("[{}]", text) : text;
  ASSIGN_OR_RETURN(
      HostPort address,
      ReadListenAddress(
          has_port ? text : fmt::format("{}:{}", host, kDefaultLinkPort)));
  if (address.host.find_first_not_of("0:.") == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{} is every address of a machine: the other hosts need "
                    "one that is its own",
                    Quote(text)));
  }
  if (address.port == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has port 0: the other hosts could not know it", Quote(text)));
  }
  return address;
}

absl::StatusOr<std::string> ReadEtcdMember(const std::string& text) {
  const bool tls = text.starts_with("https://");
  if (!tls && !text.starts_with("http://")) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is no address of an etcd: https://HOST:PORT is", Quote(text)));
  }
  ASSIGN_OR_RETURN(const auto address,
                   ReadHostPort(text.substr(text.find("//") + 2)));
  if (!tls && address.host != "127.0.0.1" && address.host != "::1") {
    return absl::InvalidArgumentError(
        fmt::format("{} is not of this machine, and whoever can reach an etcd "
                    "without TLS can end the testbed: let it be https://",
                    Quote(text)));
  }
  return text;
}

void AddOwnEtcd(Topology& topology) {
  const HostEntry* const host = FindHost(topology, topology.gpu_host);
  if (!topology.own_etcd || host == nullptr || !host->address ||
      host->address->port < 2) {
    return;
  }
  HostPort address = *host->address;
  --address.port;
  topology.etcd = {"https://" + address.ToString()};
}

std::vector<HostProblem> CheckHosts(const Topology& topology) {
  std::vector<HostProblem> wrong;
  const auto add = [&](Of of, size_t index, std::string sentence) {
    if (!sentence.empty()) wrong.push_back({of, index, std::move(sentence)});
  };
  if (topology.hosts.empty()) {
    constexpr std::string_view kNoHosts =
        "goes with hosts: {NAME: {address: HOST}}";
    if (!topology.gpu_host.empty()) {
      add(Of::kGpu, 0, fmt::format("gpu: host {}", kNoHosts));
    }
    for (size_t i = 0; i < topology.devices.size(); ++i) {
      if (topology.devices[i].host.empty()) continue;
      add(Of::kDevice, i,
          fmt::format("device {}: host {}", Quote(topology.devices[i].name),
                      kNoHosts));
    }
    if (!topology.mesh.empty() || !topology.etcd.empty() || topology.own_etcd) {
      add(Of::kMesh, 0, fmt::format("mesh {}", kNoHosts));
    }
    if (!topology.links.empty()) {
      add(Of::kLink, 0, fmt::format("a link {}", kNoHosts));
    }
    return wrong;
  }
  add(Of::kGpu, 0, CheckPlace(topology, "gpu", topology.gpu_host));
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const DeviceEntry& device = topology.devices[i];
    const std::string what = fmt::format("device {}", Quote(device.name));
    add(Of::kDevice, i, CheckPlace(topology, what, device.host));
    if (device.name.starts_with(kLinkdPrefix)) {
      add(Of::kDevice, i,
          fmt::format("{}: what begins with {} is a link's own", what,
                      kLinkdPrefix));
    }
    if (topology.own_etcd && device.name == kEtcdName) {
      add(Of::kDevice, i,
          fmt::format("{}: mesh: etcd: own starts a process of that name",
                      what));
    }
  }
  if (!wrong.empty()) return wrong;
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const DeviceEntry& device = topology.devices[i];
    add(Of::kDevice, i,
        device.host == topology.gpu_host ? CheckPartner(topology, device)
                                         : CheckRemote(topology, device));
  }
  // In simulated time one machine may be all hosts, between which nothing goes.
  if (IsSimulated(topology)) {
    CheckLatencies(topology, &wrong);
    return wrong;
  }
  if (!topology.links.empty()) {
    add(Of::kLink, 0,
        fmt::format("links go with simulated time (gpu: {}): in wall time, a "
                    "link takes what it takes; leave them out",
                    kTimingKey));
  }
  for (HostProblem& problem : CheckMesh(topology)) {
    wrong.push_back(std::move(problem));
  }
  return wrong;
}

bool IsSimulated(const Topology& topology) {
  return FindSetting(topology.gpu, kTimingKey) != nullptr;
}

Nanoseconds LatencyOf(const Topology& topology, const DeviceEntry& device) {
  if (device.host == topology.gpu_host) return 0;
  for (const LinkEntry& link : topology.links) {
    if (link.from == device.host || link.to == device.host) {
      return link.latency;
    }
  }
  return 0;
}

absl::StatusOr<Topology> PartOf(Topology topology, const std::string& host) {
  if (topology.hosts.empty()) {
    if (host.empty()) return topology;
    return absl::InvalidArgumentError(
        fmt::format("--host: {}, but the topology has no hosts: leave it out",
                    Quote(host)));
  }
  if (IsSimulated(topology) && host.empty()) return topology;
  if (host.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "the topology has hosts: say which of them this one is, as --host {} "
        "(of {})",
        topology.hosts.front().name, NamesOf(topology)));
  }
  if (FindHost(topology, host) == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("--host: {} is no host of this topology ({})", Quote(host),
                    NamesOf(topology)));
  }
  if (IsSimulated(topology)) {
    const auto wrong = CheckMesh(topology);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "--host: {}: {}; without --host, this machine is all hosts "
          "(docs/mesh.md)",
          Quote(host), wrong.front().text));
    }
  }
  HostPart part{.host = host,
                .has_gpu = host == topology.gpu_host,
                .engine = EngineOf(topology).name};
  const std::vector<std::string> by_link = HostsByLink(topology);
  if (!part.has_gpu && std::ranges::count(by_link, host) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("--host: {} has neither the GPU nor a device: there is "
                    "nothing to bring "
                    "up",
                    Quote(host)));
  }
  for (size_t i = 0; i < by_link.size(); ++i) {
    if (!part.has_gpu && by_link[i] != host) continue;
    HostPort address =
        FindHost(topology, topology.gpu_host)->address.value_or(HostPort());
    if (!address.host.empty()) {
      address.port = static_cast<uint16_t>(address.port + i);
    }
    part.links.push_back({.peer = part.has_gpu ? by_link[i] : topology.gpu_host,
                          .address = std::move(address)});
  }
  for (const HostEntry& each : topology.hosts) {
    part.hosts.push_back(
        {.name = each.name,
         .address = each.address ? each.address->ToString() : "",
         .has_gpu = each.name == topology.gpu_host});
  }
  for (const DeviceEntry& device : topology.devices) {
    const auto at =
        std::ranges::find(part.hosts, device.host, &HostPart::Host::name);
    at->devices.push_back(device.name);
    if (device.host != host) part.other_devices.push_back(device);
  }
  topology.part = std::move(part);
  std::erase_if(topology.devices,
                [&](const DeviceEntry& device) { return device.host != host; });
  return topology;
}

}  // namespace carillon::testbed
