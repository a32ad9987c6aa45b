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
#include "base/clock.h"
#include "base/option_table.h"
#include "base/tls_files.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud {

// The limit of devices that are attached at once (SessionTable::kMaxSessions).
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

  // The fields below have no flag; tests set the first two.
  // How long a ticket is valid; TicketStore::kValidNs without a value.
  std::optional<Nanoseconds> ticket_valid_ns;
  size_t watcher_capacity = 1024;  // messages that a watcher may lag behind
  // Readable when gpud is to go down (a signalfd); -1: none.
  int stop_fd = -1;
};

// Sections and keys of gpud in a topology file.
inline constexpr std::string_view kModelSection = "model";
inline constexpr std::string_view kTlsSection = "tls";
inline constexpr std::string_view kListenKey = "listen";
inline constexpr std::string_view kTimingKey = "timing";

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(GpudOptions& options);

// Checks options together. Errors: as CheckFor().
absl::Status Check(const GpudOptions& options);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_GPUD_OPTIONS_H_
