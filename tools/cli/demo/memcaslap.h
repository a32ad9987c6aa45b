// Debian's memcached client as the demo's load: its command line and its output
// (package libmemcached-tools, where memaslap is called memcaslap).
#ifndef CARILLON_TOOLS_CLI_DEMO_MEMCASLAP_H_
#define CARILLON_TOOLS_CLI_DEMO_MEMCASLAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

inline constexpr char kMemcaslap[] = "memcaslap";

// The workload: 16-byte keys, 2-byte values (Facebook's USR pool, as in
// MemcachedGPU), one SET to nine GETs.
std::string MemcaslapConfiguration();

struct MemcaslapLoad {
  uint16_t port = 0;
  uint32_t seconds = 10;
  uint32_t concurrency = 8;
  std::string configuration_file;
};
// Uses UDP and verifies every value that comes back.
std::vector<std::string> MemcaslapCommand(const MemcaslapLoad& load);

struct MemcaslapResult {
  uint64_t gets = 0;
  uint64_t sets = 0;
  uint64_t get_misses = 0;
  uint64_t verify_misses = 0;
  uint64_t verify_failed = 0;
  uint64_t packet_disorder = 0;
  uint64_t packet_drop = 0;
  uint64_t udp_timeout = 0;
  uint64_t operations = 0;
  double seconds = 0;
  uint64_t operations_per_s = 0;
  // Round trips as the client measured them, in microseconds.
  uint64_t min_us = 0;
  uint64_t average_us = 0;
  uint64_t max_us = 0;
};

// Parses its final report. InvalidArgument if a part is missing, because the
// client did not get that far.
absl::StatusOr<MemcaslapResult> ParseMemcaslap(std::string_view output);

// A port of 127.0.0.1 that is free for UDP and TCP now. Errors:
// ResourceExhausted.
absl::StatusOr<uint16_t> FindFreePort();

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_DEMO_MEMCASLAP_H_
