// "HOST:PORT", as users write where gpud listens.
#ifndef CARILLON_BASE_HOST_PORT_H_
#define CARILLON_BASE_HOST_PORT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon {

struct HostPort {
  std::string host;  // an IPv6 address without its brackets
  uint16_t port = 0;

  // "127.0.0.1:4000", "[::1]:4000"
  std::string ToString() const;
  // IPv4 or IPv6, no name.
  bool numeric() const;
};

// Errors: InvalidArgument, with the text and what is allowed.
absl::StatusOr<HostPort> ReadHostPort(std::string_view text);

// The same of where to listen: HOST must be in numbers.
absl::StatusOr<HostPort> ReadListenAddress(std::string_view text);

}  // namespace carillon

#endif  // CARILLON_BASE_HOST_PORT_H_
