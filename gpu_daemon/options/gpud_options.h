// What gpud can be told, without gpud: flags, topologies and documentation are
// made from its table.
#ifndef CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_
#define CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/option_table.h"
#include "base/tls_files.h"
#include "gpu_daemon/event/backend_options.h"

namespace carillon::gpud {

// Devices that may be attached at once (SessionTable::kMaxSessions).
inline constexpr uint64_t kMaxDevices = 64;

struct GpudOptions {
  std::string directory;
  std::string testbed = "default";
  std::string backend{kAutoBackend};  // see MakeBackend()
  BackendOptions backend_options;
  uint32_t ekt_entries = 32;
  uint64_t memory_bytes = 0;  // 0: DefaultMemoryBudget()
  uint64_t record = 0;        // the flight recorder's records; 0: off
  bool faults = false;        // whether there is a board of faults
  // A device that gives no sign of life for longer is closed; 0: never.
  Nanoseconds lease_ns = 0;
  // HOST:PORT to serve on over TCP as well; empty: nowhere. Goes with all of
  // `tls`, whose `ca` is the clients'.
  std::string listen;
  TlsFiles tls;
  std::string log_level = "info";

  // The rest are no flags.
  // How long a ticket is good (TicketStore::kValidNs), and how many messages a
  // watcher may be behind.
  std::optional<Nanoseconds> ticket_valid_ns;
  size_t watcher_capacity = 1024;
  // Readable when gpud is to go down (a signalfd); -1: none.
  int stop_fd = -1;
};

// Sections of gpud's keys in a topology file.
inline constexpr std::string_view kModelSection = "model";
inline constexpr std::string_view kTlsSection = "tls";
inline constexpr std::string_view kListenKey = "listen";
inline constexpr std::string_view kTimingKey = "timing";

// Refers to `options`' fields.
std::vector<Option> OptionTable(GpudOptions& options);

// What no single option tells. Errors: as CheckFor().
absl::Status Check(const GpudOptions& options);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_
