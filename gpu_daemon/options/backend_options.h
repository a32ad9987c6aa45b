// The options of a back-end, and which back-end takes which.
#ifndef CARILLON_GPU_DAEMON_OPTIONS_BACKEND_OPTIONS_H_
#define CARILLON_GPU_DAEMON_OPTIONS_BACKEND_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/tls_files.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/options/policy_names.h"
#include "mesh/link_engine.h"

namespace carillon::gpud {

class DeviceMemory;
class EventKernel;

inline constexpr std::string_view kAutoBackend = "auto";
inline constexpr std::string_view kCudaBackend = "cuda";
inline constexpr std::string_view kCpuBackend = "cpu";
inline constexpr std::string_view kSimBackend = "sim";
inline constexpr std::string_view kRemoteBackend = "remote";

inline constexpr std::string_view kNvidiaDriver = "nvidia";
inline constexpr std::string_view kSimDriver = "sim";

inline constexpr uint64_t kDefaultHeapBytes = 8 << 20;  // CUDA's
inline constexpr uint64_t kMostHeapBytes = uint64_t{1} << 36;

// The link of the remote back-end (docs/mesh.md).
struct RemoteOptions {
  std::string address;  // of linkd: HOST:PORT, HOST in numbers
  std::string host;     // this host, as its certificate has it
  std::string peer;     // linkd's host, as its certificate has it
  std::string testbed;
  TlsFiles tls;
  mesh::EngineChoice engine;
  Nanoseconds wait = 5'000'000'000;  // at the start, for the other host
  Nanoseconds timeout = 1'000'000'000;
  Nanoseconds lease = 60'000'000'000;
  bool restarted = false;        // another gpud of this host was here before
  std::string incarnation_file;  // base/incarnation
  // Where the other host's clock is noted (shm/recorder/peer_clock.h); empty:
  // nothing is recorded.
  std::string recorder_directory;

  // For how long a start waits for the other host: one of a gpud that was
  // started again as long as its events in flight are kept.
  Nanoseconds StartWait() const {
    return restarted ? std::max(wait, lease) : wait;
  }
  // Another build may come there meanwhile; else what is refused stays so.
  bool RefusalIsFinal() const { return !restarted; }
};

struct BackendOptions {
  GpuModel gpu;                       // what a back-end without a GPU emulates
  std::string driver{kNvidiaDriver};  // whose GPU the cuda back-end runs on
  std::string policy;    // how launches share it; empty: its default
  uint32_t workers = 0;  // 0: as many as the machine is good for
  // For events: of launch path edge's own (cuda); and by the policies that
  // reserve, where 0 means half of them.
  uint32_t reserved_sms = 0;
  // How long a slice of policy gpes may have the GPU (cuda). 0: a slice is what
  // the GPU holds at once, however long that takes.
  uint32_t preempt_us = 0;
  // Longest spin of a CPU thread for a doorbell before it sleeps; the spin
  // adapts below it. 0: it sleeps at once.
  Nanoseconds max_spin_ns = 50'000;
  // What malloc() of kernels takes from, where they run as PTX.
  uint64_t heap_bytes = kDefaultHeapBytes;
  // Bytes of a copy to GPU memory, and from there, after which another may go
  // first. By default what GPES took for its video (V-E).
  uint64_t copy_in_chunk = uint64_t{4} << 20;
  uint64_t copy_out_chunk = uint64_t{512} << 10;
  // The configuration of the simulated GPU in whose time the testbed lives (a
  // preset's name or a file); empty: wall time.
  std::string timing;
  // Time begins when so many devices have attached.
  uint32_t first_devices = 1;
  // "fpga0,host0": time begins when these have attached, and the addresses of each
  // depend on its place here and on what it does itself.
  std::string device_order;
  // "fpga0=2us,nic0=500ns": how long the link of a device takes each way, in
  // simulated time; all others have none.
  std::string device_latencies;
  // Receives the times of each event and kernel; empty: none.
  std::string event_log;
  RemoteOptions remote;
  // A file that a gpud which has lost its GPU leaves (cuda), for its devices and the
  // next gpud; empty: none.
  std::string restart_mark;
  bool tracing = false;
  // OnViolation (launch_path.h).
  std::function<void(const std::shared_ptr<DeviceMemory>& memory,
                     std::string reason)>
      on_violation;
  // Of the remote back-end: the device's events run nowhere any more, and its
  // session is to end.
  std::function<void(const std::shared_ptr<DeviceMemory>& memory,
                     std::string reason)>
      on_link_lost;
  // OnOverrun (launch_path.h).
  std::function<void(const EventKernel& event, Nanoseconds cpu_ns)> on_overrun;
};

using DeviceLatencies = std::map<std::string, Nanoseconds, std::less<>>;
// BackendOptions::device_latencies. Errors: InvalidArgument.
absl::StatusOr<DeviceLatencies> ReadDeviceLatencies(std::string_view text);

// BackendOptions::device_order. Errors: InvalidArgument (a name that is none, or
// that is there twice).
absl::StatusOr<std::vector<std::string>> ReadDeviceOrder(std::string_view text);

// Checks whether that back-end takes these options, as far as this is known
// without starting it. Errors: InvalidArgument (an option of another back-end),
// Unimplemented. The message begins with the flag.
absl::Status CheckFor(std::string_view backend, const BackendOptions& options);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_BACKEND_OPTIONS_H_
