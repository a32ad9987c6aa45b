// The options of gpud. They need nothing else of gpud, so that tools can read
// them.
#ifndef CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_
#define CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/option_table.h"
#include "base/tls_files.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud {

// The limit of devices that are attached at once (SessionTable::kMaxSessions).
inline constexpr uint64_t kMaxDevices = 127;
// Of kPriorities.
inline constexpr uint32_t kHighestPriority = 7;

struct GpudOptions {
  std::string directory;
  std::string testbed = "default";
  std::string backend{kAutoBackend};  // see MakeBackend()
  BackendOptions backend_options;
  uint32_t ekt_entries = 32;
  uint32_t max_priority = kHighestPriority;
  // No process can keep all others out.
  uint32_t devices_per_process = kMaxDevices / 2;
  uint64_t memory_bytes = 0;  // 0: DefaultMemoryBudget()
  uint64_t record = 0;        // the flight recorder's records; 0: off
  bool faults = false;        // whether there is a board of faults
  // A device that gives no sign of life for longer is closed, unless a debugger
  // holds it; 0: never. By default long enough for whom somebody has stopped by
  // hand, since a stopped device disturbs no other.
  Nanoseconds lease_ns = 300'000'000'000;
  // HOST:PORT to serve on over TCP as well; empty: nowhere. Goes with all of
  // `tls`, whose `ca` is the clients'.
  std::string listen;
  TlsFiles tls;
  // Users beside gpud's own whose processes may be devices, and nothing else:
  // "1000,1001".
  std::string device_users;
  // "nic0=2:3,fpga0=1:7": weight and highest priority of devices, by name.
  std::string device_shares;
  std::string log_level = "info";

  // The fields below have no flag; tests set the first two.
  // How long a ticket is valid; TicketStore::kValidNs without a value.
  std::optional<Nanoseconds> ticket_valid_ns;
  size_t watcher_capacity = 1024;  // messages that a watcher may lag behind
  // Readable when gpud is to go down (a signalfd); -1: none.
  int stop_fd = -1;
  // The same when it is to make way for another gpud.
  int restart_fd = -1;
};

// Sections and keys of gpud in a topology file.
inline constexpr std::string_view kModelSection = "model";
inline constexpr std::string_view kTlsSection = "tls";
inline constexpr std::string_view kListenKey = "listen";
inline constexpr std::string_view kTimingKey = "timing";

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(GpudOptions& options);

// The uids in GpudOptions::device_users. Errors: InvalidArgument.
absl::StatusOr<std::vector<uint32_t>> ReadUids(std::string_view text);

inline constexpr uint32_t kMostWeight = 100;
struct NamedShare {
  std::string device;
  uint32_t weight = 1;  // 1 to kMostWeight
  uint32_t max_priority = kHighestPriority;
};
// GpudOptions::device_shares. Errors: InvalidArgument.
absl::StatusOr<std::vector<NamedShare>> ReadDeviceShares(std::string_view text);

// Checks options together. Errors: as CheckFor().
absl::Status Check(const GpudOptions& options);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_
