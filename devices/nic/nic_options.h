// The NIC's settings on its command line.
#ifndef CARILLON_DEVICES_NIC_NIC_OPTIONS_H_
#define CARILLON_DEVICES_NIC_NIC_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"
#include "kernels/memcached/wire.h"

namespace carillon::nic {

struct NicOptions {
  std::string listen = "127.0.0.1";
  uint16_t udp_port = 11211;  // 0: any
  uint16_t tcp_port = 11211;
  uint32_t batch = memcached::kWarpBatch;
  uint32_t batch_timeout_us = 100;
  uint32_t ring = 64;
  uint32_t priority = 0;
  uint64_t table_entries = 65536;
  uint64_t store_bytes = 64 << 20;
  bool durable = false;
  uint32_t packet_buffers = 4096;
  uint32_t max_connections = 1024;
  std::string gnom;  // an interface; empty: off
  uint32_t grxbs = 8192;
  bool gnom_copies = false;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(NicOptions& options);

// Checks options together, and the address. Errors: InvalidArgument.
absl::Status Check(const NicOptions& options);

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_NIC_OPTIONS_H_
