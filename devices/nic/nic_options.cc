#include "devices/nic/nic_options.h"

#include <fmt/format.h>

#include <bit>
#include <string_view>

namespace carillon::nic {

absl::Status Check(const NicOptions& options) {
  const auto out_of_range = [](std::string_view what, uint64_t value,
                               std::string_view limit) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}: must be {}", what, value, limit));
  };
  if (options.batch < 1 || options.batch > memcached::kMaxBatch) {
    return out_of_range("--batch", options.batch,
                        fmt::format("1..{}", memcached::kMaxBatch));
  }
  if (!std::has_single_bit(options.ring) || options.ring > 4096) {
    return out_of_range("--ring", options.ring, "a power of two, 1..4096");
  }
  if (options.packet_buffers < options.batch ||
      options.packet_buffers > 1u << 20) {
    return out_of_range(
        "--packet-buffers", options.packet_buffers,
        fmt::format("{} (--batch)..{}", options.batch, 1 << 20));
  }
  if (options.max_connections < 1 || options.max_connections > 65536) {
    return out_of_range("--max-connections", options.max_connections,
                        "1..65536");
  }
  if (options.table_entries < memcached::kTableWays) {
    return out_of_range("--table-entries", options.table_entries,
                        fmt::format("at least {}", memcached::kTableWays));
  }
  return absl::OkStatus();
}

}  // namespace carillon::nic
