// `carillon bench sharing`: events beside background kernels, under each sharing
// policy, in one gpud after the other.
#ifndef CARILLON_TOOLS_BENCH_SHARING_SHARING_RUN_H_
#define CARILLON_TOOLS_BENCH_SHARING_SHARING_RUN_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace carillon::bench {

inline constexpr std::array<std::string_view, 9> kSharingPolicies = {
    "first_come",          "priority",  "p1",   "p2", "reservation",
    "dynamic_reservation", "exclusive", "gpes", "ptb"};

// What is measured; the first three make the document's cells.
inline constexpr std::array<std::string_view, 9> kSharingParts = {
    "load",   "block_length", "kernel_length", "pending", "losses",
    "copies", "video",        "orders",        "floods"};

struct SharingOptions {
  std::string gpud;             // the program
  std::string backend = "cpu";  // cpu, cuda; sim: in simulated time
  std::string timing;           // the simulated GPU's file (sim)
  std::vector<std::string> policies{kSharingPolicies.begin(),
                                    kSharingPolicies.end()};
  std::vector<std::string> parts{kSharingParts.begin(), kSharingParts.end()};
  std::string trace;  // a file of arrivals
  // gpud's options on cuda; 0: what it does without them.
  uint32_t preempt_us = 0;
  uint32_t reserve_sms = 0;
  uint32_t rounds = 2;
  uint32_t seed = 1;
  bool quick = false;
};

// The document (docs/benchmarks.md). Errors: Unavailable (no gpud), those of the
// trace, and of the first measurement that fails.
absl::StatusOr<Json> RunSharing(const SharingOptions& options);

// The document's tables, for people.
std::string SharingTables(const Json& document);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_SHARING_RUN_H_
