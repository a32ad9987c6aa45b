#include "devices/router/ports.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "devices/packet_io/af_packet_port.h"
#include "devices/packet_io/af_xdp_port.h"
#include "devices/packet_io/pcap_port.h"
#include "devices/packet_io/port_spec.h"
#include "devices/packet_io/tap_port.h"
#include "devices/packet_io/udp_port.h"

namespace carillon::router {
namespace {

using packet_io::AfPacketPort;
using packet_io::AfXdpPort;
using packet_io::FramePool;
using packet_io::PacketPort;
using packet_io::PcapPort;
using packet_io::PortSpec;
using packet_io::TapPort;
using packet_io::UdpPort;

constexpr char kFilePort[] = "file";

absl::StatusOr<std::unique_ptr<PacketPort>> OpenLive(const PortSpec& spec,
                                                     FramePool* pool,
                                                     uint32_t af_xdp_ports) {
  switch (spec.kind) {
    case PortSpec::Kind::kTap:
      return TapPort::Open(spec.interface, pool);
    case PortSpec::Kind::kAfXdp:
      return AfXdpPort::Open(spec.interface, spec.queue, pool, af_xdp_ports);
    case PortSpec::Kind::kUdp:
      return UdpPort::Open(spec.interface, pool);
    case PortSpec::Kind::kAfPacket:
      break;
  }
  return AfPacketPort::Open(spec.interface, pool);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PortNames(
    const RouterOptions& options) {
  std::vector<std::string> names;
  if (!options.ports.empty()) {
    ASSIGN_OR_RETURN(const auto specs, packet_io::ParsePorts(options.ports));
    for (const PortSpec& spec : specs) names.push_back(spec.name);
  }
  if (options.from.empty() && options.to.empty()) return names;
  if (std::ranges::find(names, kFilePort) != names.end()) {
    return absl::InvalidArgumentError(
        "with --from or --to no other port has the name 'file'");
  }
  names.push_back(kFilePort);
  return names;
}

std::vector<std::string> PortCounterNames(
    const std::vector<std::string>& ports) {
  std::vector<std::string> names;
  for (const std::string& port : ports) {
    for (const char* const what :
         {"in", "out", "drops_oversized", "drops_overrun", "drops_send"}) {
      names.push_back(fmt::format("{}_{}", port, what));
    }
  }
  return names;
}

absl::StatusOr<Ports> Ports::Open(const RouterOptions& options,
                                  FramePool* pool) {
  Ports ports;
  ports.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!ports.epoll_) {
    return absl::ResourceExhaustedError(
        fmt::format("epoll: {}", std::strerror(errno)));
  }
  if (!options.ports.empty()) {
    ASSIGN_OR_RETURN(const auto specs, packet_io::ParsePorts(options.ports));
    const auto af_xdp_ports = static_cast<uint32_t>(
        std::ranges::count(specs, PortSpec::Kind::kAfXdp, &PortSpec::kind));
    for (const PortSpec& spec : specs) {
      ASSIGN_OR_RETURN(auto port, OpenLive(spec, pool, af_xdp_ports));
      RETURN_IF_ERROR(ports.Add(spec.name, std::move(port),
                                spec.kind == PortSpec::Kind::kUdp));
    }
  }
  if (!options.from.empty() || !options.to.empty()) {
    ASSIGN_OR_RETURN(auto port,
                     PcapPort::Open({.from = options.from,
                                     .to = options.to,
                                     .timed = options.pace == kFilePace},
                                    pool));
    RETURN_IF_ERROR(ports.Add(kFilePort, std::move(port)));
  }
  return ports;
}

absl::Status Ports::Add(std::string name, std::unique_ptr<PacketPort> port,
                        bool is_udp) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, port->fd(), &event) != 0) {
    return absl::InternalError(fmt::format("epoll: {}", std::strerror(errno)));
  }
  names_.push_back(std::move(name));
  ports_.push_back(std::move(port));
  outgoing_.emplace_back();
  is_udp_.push_back(is_udp);
  return absl::OkStatus();
}

bool Ports::Receive(std::vector<Arrival>* arrivals) {
  bool more = false;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    received_.clear();
    more |= ports_[i]->Receive(&received_);
    for (const packet_io::Frame& frame : received_) {
      arrivals->push_back({frame, i});
    }
  }
  return more;
}

void Ports::Flush() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (outgoing_[i].empty()) continue;
    ports_[i]->Send(outgoing_[i]);
    outgoing_[i].clear();
  }
}

bool Ports::ended() const {
  return std::ranges::all_of(ports_,
                             [](const auto& port) { return port->ended(); });
}

absl::Status Ports::Finish() {
  absl::Status status;
  for (const auto& port : ports_) status.Update(port->Finish());
  return status;
}

std::string Ports::Describe() const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ports_.size(); ++i) {
    texts.push_back(fmt::format("{} {}", names_[i], ports_[i]->Describe()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<uint64_t> Ports::Counters() {
  std::vector<uint64_t> values;
  for (const auto& port : ports_) {
    const packet_io::PortCounts& counts = port->counts();
    values.insert(values.end(), {counts.received, counts.sent, counts.oversized,
                                 counts.overrun, counts.send_failed});
  }
  return values;
}

}  // namespace carillon::router
