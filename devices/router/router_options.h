// The router's settings on its command line and in a topology.
#ifndef CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_
#define CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/option_table.h"

namespace carillon::router {

struct RouterOptions {
  std::string routes;
  std::string tunnels;
  std::string ports;
  std::string addresses;
  std::string from;
  std::string to;
  std::string pace = "flat";
  uint32_t batch = 32;
  uint32_t ring = 64;
  uint32_t queues = 1;
  uint32_t priority = 0;
  uint32_t frame_buffers = 2048;
};
inline constexpr char kFilePace[] = "file";
inline constexpr uint32_t kMaxQueues = 8;

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(RouterOptions& options);

// Reads `addresses`: 4 or 16 bytes each. Error: InvalidArgument.
absl::StatusOr<std::set<std::vector<std::byte>>> ParseAddresses(
    std::string_view text);

// Checks options together. Errors: InvalidArgument.
absl::Status Check(const RouterOptions& options);

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_
