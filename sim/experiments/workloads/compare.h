// Compares output with a reference.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_COMPARE_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_COMPARE_H_

#include <cmath>
#include <cstddef>
#include <ranges>
#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::sim::figures {

// Succeeds if all elements are equal up to `tolerance`. DataLoss names the
// first that is not.
template <class Got, class Wanted>
absl::Status Compare(std::string_view what, const Got& got,
                     const Wanted& wanted, double tolerance = 0) {
  if (std::ranges::size(got) != std::ranges::size(wanted)) {
    return absl::DataLossError(fmt::format("{} has {} elements, not {}", what,
                                           std::ranges::size(got),
                                           std::ranges::size(wanted)));
  }
  for (size_t i = 0; i < std::ranges::size(got); ++i) {
    const auto is = static_cast<double>(got[i]);
    const auto should = static_cast<double>(wanted[i]);
    // Written so that a NaN counts as different.
    if (std::abs(is - should) <= tolerance) continue;
    return absl::DataLossError(
        fmt::format("{} {} is {}, not {}", what, i, is, should));
  }
  return absl::OkStatus();
}

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_COMPARE_H_
