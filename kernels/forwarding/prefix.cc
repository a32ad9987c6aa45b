#include "kernels/forwarding/prefix.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "absl/status/status.h"
#include "base/status.h"

namespace carillon::forwarding {
namespace {

int SocketFamily(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}

}  // namespace

AddressBytes Masked(const AddressBytes& address, uint32_t length) {
  AddressBytes masked{};
  for (uint32_t i = 0; i < address.size() && i * 8 < length; ++i) {
    const uint32_t kept = length - i * 8;
    masked[i] = static_cast<uint8_t>(kept >= 8 ? address[i]
                                               : address[i] & ~(0xffu >> kept));
  }
  return masked;
}

absl::Status CheckPrefix(const Prefix& prefix) {
  const uint32_t bits = AddressBits(prefix.family);
  if (prefix.length > bits) {
    return absl::InvalidArgumentError(fmt::format(
        "prefix {}: the length must be 0..{}", ToString(prefix), bits));
  }
  const AddressBytes masked = Masked(prefix.address, prefix.length);
  if (masked != prefix.address) {
    Prefix meant = prefix;
    meant.address = masked;
    return absl::InvalidArgumentError(
        fmt::format("prefix {}: bits are set behind its first {}; perhaps {}",
                    ToString(prefix), prefix.length, ToString(meant)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Prefix> ParsePrefix(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  Prefix prefix;
  prefix.family =
      address.find(':') == address.npos ? Family::kIpv4 : Family::kIpv6;
  if (address.find('\0') != address.npos ||
      inet_pton(SocketFamily(prefix.family), address.c_str(),
                prefix.address.data()) != 1) {
    return absl::InvalidArgumentError(fmt::format(
        "prefix '{}': '{}' is no IPv4 or IPv6 address", text, address));
  }
  const std::string_view digits =
      slash == text.npos ? "" : text.substr(slash + 1);
  uint32_t length = 0;
  const auto [end, error] =
      std::from_chars(digits.begin(), digits.end(), length);
  if (error != std::errc() || end != digits.end() ||
      length > AddressBits(prefix.family)) {
    return absl::InvalidArgumentError(
        fmt::format("prefix '{}': must end in '/' and a length of 0..{}", text,
                    AddressBits(prefix.family)));
  }
  prefix.length = static_cast<uint8_t>(length);
  RETURN_IF_ERROR(CheckPrefix(prefix));
  return prefix;
}

std::string ToString(const Prefix& prefix) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(SocketFamily(prefix.family), prefix.address.data(), text,
            sizeof(text));
  return fmt::format("{}/{}", text, prefix.length);
}

}  // namespace carillon::forwarding
