// The router's settings on its command line.
#ifndef CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_
#define CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"

namespace carillon::router {

struct RouterOptions {
  std::string routes;
  std::string from;
  std::string to;
  uint32_t batch = 32;
  uint32_t ring = 64;
  uint32_t priority = 0;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(RouterOptions& options);

// Checks options together. Errors: InvalidArgument.
absl::Status Check(const RouterOptions& options);

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTER_OPTIONS_H_
