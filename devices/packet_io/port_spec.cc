#include "devices/packet_io/port_spec.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/host_port.h"
#include "base/option_table.h"
#include "base/status.h"

namespace carillon::packet_io {
namespace {

constexpr size_t kMaxNameBytes = 16;
constexpr uint32_t kMaxQueue = 1023;

// A counter has it in its name.
bool IsPortName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

absl::StatusOr<PortSpec> ParsePort(std::string_view text) {
  const auto refuse = [&](std::string_view reason) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': {}; a port is NAME=af_packet:INTERFACE, "
                    "NAME=af_xdp:INTERFACE[:QUEUE], NAME=tap:INTERFACE or "
                    "NAME=udp:ADDRESS:PORT",
                    text, reason));
  };
  const size_t equals = text.find('=');
  const size_t colon = text.find(':');
  if (equals == text.npos || colon == text.npos || colon < equals) {
    return refuse("there is no = or no : behind it");
  }
  const std::string_view kind = text.substr(equals + 1, colon - equals - 1);
  PortSpec port{.name = std::string(text.substr(0, equals)),
                .kind = PortSpec::Kind::kAfPacket,
                .interface = std::string(text.substr(colon + 1))};
  if (!IsPortName(port.name)) {
    return refuse(
        "its name has other characters than a-z, 0-9 and _, or not 1 "
        "to 16 of them");
  }
  if (kind == "tap") {
    port.kind = PortSpec::Kind::kTap;
  } else if (kind == "af_xdp") {
    port.kind = PortSpec::Kind::kAfXdp;
    const size_t queue = port.interface.find(':');
    if (queue != port.interface.npos) {
      const auto number =
          ReadInteger(port.interface.substr(queue + 1), 0, kMaxQueue);
      if (!number.ok()) return refuse("the queue is no number up to 1023");
      port.queue = static_cast<uint32_t>(*number);
      port.interface.resize(queue);
    }
  } else if (kind == "udp") {
    port.kind = PortSpec::Kind::kUdp;
    const auto address = ReadListenAddress(port.interface);
    if (!address.ok()) return refuse("its address is none");
    return port;
  } else if (kind != "af_packet") {
    return refuse(fmt::format("there is no kind '{}'", kind));
  }
  if (port.interface.empty() || port.interface.size() >= IFNAMSIZ) {
    return refuse("an interface's name has 1 to 15 characters");
  }
  return port;
}

}  // namespace

absl::StatusOr<std::vector<PortSpec>> ParsePorts(std::string_view text) {
  std::vector<PortSpec> ports;
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()),
                     absl::ByAnyChar(", "), absl::SkipEmpty());
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(PortSpec port, ParsePort(part));
    for (const PortSpec& other : ports) {
      if (other.name != port.name && other.interface != port.interface) {
        continue;
      }
      return absl::InvalidArgumentError(fmt::format(
          "'{}': another port has that name or interface already", part));
    }
    ports.push_back(std::move(port));
  }
  if (ports.empty() || ports.size() > kMaxPorts) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' has {} ports; allowed: 1 to {}", text, ports.size(), kMaxPorts));
  }
  return ports;
}

}  // namespace carillon::packet_io
