#include "devices/nic/nic_options.h"

#include <fmt/format.h>

#include "devices/sdk/device_options.h"

namespace carillon::nic {

using enum OptionType;

std::vector<Option> OptionTable(NicOptions& options) {
  constexpr uint64_t kKiB = 1 << 10;
  constexpr uint64_t kGiB = 1 << 30;
  return {
      {.flag = "--listen",
       .key = "listen",
       .type = kText,
       .field = &options.listen,
       .min = 2,
       .max = 64,
       .help = "address to serve on, in numbers (IPv4 or IPv6)"},
      {.flag = "--udp-port",
       .key = "udp_port",
       .type = kInteger,
       .field = &options.udp_port,
       .max = 65535,
       .help = "0: any free port"},
      {.flag = "--tcp-port",
       .key = "tcp_port",
       .type = kInteger,
       .field = &options.tcp_port,
       .max = 65535,
       .help = "0: any free port"},
      {.flag = "--batch",
       .key = "batch",
       .type = kInteger,
       .field = &options.batch,
       .min = 1,
       .max = memcached::kMaxBatch,
       .help = "requests of one event (512: the GNoM setting)"},
      {.flag = "--batch-timeout-us",
       .key = "batch_timeout_us",
       .type = kInteger,
       .field = &options.batch_timeout_us,
       .max = 1'000'000,
       .help = "a batch is closed after this long at the latest"},
      edge::RingOption(options.ring, 4096),
      edge::PriorityOption(options.priority,
                           "of the device's event kernels; 7 is the highest"),
      {.flag = "--table-entries",
       .key = "table_entries",
       .type = kInteger,
       .field = &options.table_entries,
       .min = memcached::kTableWays,
       .max = 1 << 28,
       .help = "keys that the 16-way hash table holds"},
      {.flag = "--store-bytes",
       .key = "store_bytes",
       .type = kSize,
       .field = &options.store_bytes,
       .min = 128 * kKiB,
       .max = 64 * kGiB,
       .help = "room for values"},
      {.flag = "--packet-buffers",
       .key = "packet_buffers",
       .type = kInteger,
       .field = &options.packet_buffers,
       .min = 1,
       .max = 1 << 20,
       .help = "datagrams that can be in flight; at least `batch`"},
      {.flag = "--max-connections",
       .key = "max_connections",
       .type = kInteger,
       .field = &options.max_connections,
       .min = 1,
       .max = 65536,
       .help = "TCP connections at once"},
  };
}

absl::Status Check(const NicOptions& options) {
  if (options.packet_buffers >= options.batch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--packet-buffers: '{}' is less than a batch of {}",
                  options.packet_buffers, options.batch));
}

}  // namespace carillon::nic
