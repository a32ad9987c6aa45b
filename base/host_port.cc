#include "base/host_port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "fmt/format.h"

namespace carillon {
namespace {

constexpr size_t kMaxHost = 253;  // bytes of a DNS name

bool IsV6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsV4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
}

absl::Status Wrong(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format(
      "'{}' {}; allowed: HOST:PORT, like 127.0.0.1:4000 or [::1]:4000, the "
      "port 0 to 65535",
      text.substr(0, kMaxHost), why));
}

}  // namespace

std::string HostPort::ToString() const {
  return IsV6(host) ? fmt::format("[{}]:{}", host, port)
                    : fmt::format("{}:{}", host, port);
}

bool HostPort::numeric() const { return IsV4(host) || IsV6(host); }

absl::StatusOr<HostPort> ReadHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Wrong(text, "has no port");
  HostPort result;
  const std::string_view port = text.substr(colon + 1);
  const char* const end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data(), end, result.port);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Wrong(text, "has no such port");
  }
  const std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    result.host = host.substr(1, host.size() - 2);
    if (IsV6(result.host)) return result;
    return Wrong(text, "has no IPv6 address in its brackets");
  }
  result.host = host;
  if (host.empty() || host.size() > kMaxHost ||
      !std::all_of(host.begin(), host.end(), IsNameCharacter)) {
    return Wrong(text, "has no such host");
  }
  return result;
}

absl::StatusOr<HostPort> ReadListenAddress(std::string_view text) {
  auto result = ReadHostPort(text);
  if (result.ok() && !result->numeric()) {
    return Wrong(text, "names a host; where to listen is told in numbers");
  }
  return result;
}

}  // namespace carillon
