#include "devices/nic/nic_options.h"

#include <fmt/format.h>

#include "base/host_port.h"
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
      IntegerOption("--udp-port", "udp_port", &options.udp_port, 0, 65535,
                    "0: any free port"),
      IntegerOption("--tcp-port", "tcp_port", &options.tcp_port, 0, 65535,
                    "0: any free port"),
      IntegerOption("--batch", "batch", &options.batch, 1, memcached::kMaxBatch,
                    "requests of one event (512: the GNoM setting)"),
      IntegerOption("--batch-timeout-us", "batch_timeout_us",
                    &options.batch_timeout_us, 0, 10'000'000,
                    "a batch is closed after this long at the latest"),
      edge::RingOption(options.ring, 4096),
      edge::PriorityOption(options.priority,
                           "of the device's event kernels; 7 is the highest"),
      IntegerOption("--table-entries", "table_entries", &options.table_entries,
                    memcached::kTableWays, 1 << 28,
                    "keys that the 16-way hash table holds"),
      {.flag = "--store-bytes",
       .key = "store_bytes",
       .type = kSize,
       .field = &options.store_bytes,
       .min = 128 * kKiB,
       .max = 64 * kGiB,
       .help = "room for values"},
      BooleanOption("--durable", "durable", &options.durable,
                    "the store outlives gpud: it lies in shared memory, and "
                    "the next gpud takes it over"),
      IntegerOption("--packet-buffers", "packet_buffers",
                    &options.packet_buffers, 1, 1 << 20,
                    "datagrams that can be in flight; at least `batch`"),
      IntegerOption("--max-connections", "max_connections",
                    &options.max_connections, 1, 65536,
                    "TCP connections at once"),
      {.flag = "--gnom",
       .key = "gnom",
       .type = kText,
       .field = &options.gnom,
       .max = 15,
       .default_means = "off",
       .help = "GNoM: take GETs as raw frames from this interface "
               "(CAP_NET_RAW), of which `listen` is an IPv4 address"},
      IntegerOption("--grxbs", "grxbs", &options.grxbs, memcached::kMaxBatch,
                    112'640,
                    "GNoM: receive buffers of 2 KiB; 112640: the thesis's"),
      {.flag = "--gnom-copies",
       .key = "gnom_copies",
       .type = kBoolean,
       .field = &options.gnom_copies,
       .help = "GNoM: copy frames and replies through host memory (the "
               "thesis's NGD, without GPUDirect)"},
  };
}

absl::Status Check(const NicOptions& options) {
  if (!HostPort{.host = options.listen}.numeric()) {
    return absl::InvalidArgumentError(fmt::format(
        "--listen: '{}' is not an IP address; give one of this machine, such "
        "as 127.0.0.1, or 0.0.0.0 for all",
        options.listen));
  }
  if (options.gnom.empty() && options.gnom_copies) {
    return absl::InvalidArgumentError(
        "--gnom-copies needs --gnom: without it there is nothing to copy");
  }
  if (!options.gnom.empty() && options.listen.find(':') != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: '{}' is not an IPv4 address, as --gnom needs",
                    options.listen));
  }
  if (!options.gnom.empty() && options.listen == "0.0.0.0") {
    return absl::InvalidArgumentError(
        "--listen: '0.0.0.0' does not go with --gnom, which would answer for "
        "other hosts' addresses, too; give the one address to serve");
  }
  if (!options.gnom.empty() && options.batch < memcached::kWarpBatch) {
    return absl::InvalidArgumentError(
        fmt::format("--batch: '{}' is less than {}, the least with --gnom",
                    options.batch, memcached::kWarpBatch));
  }
  if (options.packet_buffers >= options.batch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--packet-buffers: '{}' is less than a batch of {}",
                  options.packet_buffers, options.batch));
}

}  // namespace carillon::nic
