// Which event it was whose kernel took the GPU away, told across processes: a
// fault ends gpud, and says nothing of whose kernel has faulted.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_FAULT_RECORD_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_FAULT_RECORD_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/restart/restart_mark.h"

namespace carillon::gpud::cuda {

// An event, by what it keeps when another gpud goes on with it; or a background
// kernel, which ends with its gpud.
struct RunId {
  static constexpr uint32_t kNoEvent = ~uint32_t{0};

  std::string device;
  pid_t owner = 0;  // a new process begins its sequences anew
  uint32_t event_id = kNoEvent;
  uint64_t sequence = 0;

  bool is_event() const { return event_id != kNoEvent; }
  auto operator<=>(const RunId&) const = default;
};

// What may have faulted is noted in the file by which devices know that another gpud
// comes (TestbedPaths::restart_mark()), behind this one's pid. The next gpud runs it
// again; what may have faulted there, too, is what did. One thread.
//
// A note stays until another one takes its place: a gpud may end before it serves,
// or be killed. It does no harm to events that have ended since: their sequences do
// not come again.
class FaultRecord {
 public:
  // With what was noted last in `file`. What cannot be read was not noted. Empty:
  // nothing outlives this process.
  explicit FaultRecord(std::string file);

  // The GPU is lost, and one of these has faulted. Those to blame: the only one;
  // those that are in the record, too; or all, where nothing outlives this
  // process. Empty: any of them may be it.
  std::vector<RunId> Blame(std::span<const RunId> ran) const;

  // This process ends for the next gpud, as `mark` says but for the pid, and one
  // of these may have faulted. If there are none, those in the record stay there.
  // Errors: the system's.
  absl::Status Note(std::span<const RunId> ran, RestartMark mark = {}) const;

 private:
  const std::string file_;
  std::vector<RunId> before_;  // sorted
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_FAULT_RECORD_H_
