// What a kernel that faults, or that does not end, costs those beside it: a whole
// testbed under its supervisor, with a device that has such a kernel and one that is
// honest.
#ifndef CARILLON_TOOLS_GPU_CHECK_RECOVERY_H_
#define CARILLON_TOOLS_GPU_CHECK_RECOVERY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace carillon::gpu_check {

struct RecoveryOptions {
  std::string carillon;  // the program
  std::string kernels;   // rogue.cu's image
  std::string path;      // of the honest device
  std::string kernel;    // of the other: write_wrong, never_end
  uint32_t blocks = 1;   // so many of it, of 1,024 threads if there are several
};

struct Recovery {
  uint64_t rogue_status = 0;    // how its event ended
  uint64_t restarts = 0;        // of gpud, as the rogue device saw them
  uint64_t honest_done = 0;     // its events
  uint64_t honest_failed = 0;   // those that ran each time that gpud ended
  double longest_pause_ms = 0;  // from a ring of the honest device to its end
};

// The honest device rings one event after the other; the other one rings once. Then
// both have to go on. Errors: DataLoss (an event that did not end, or not once),
// DeadlineExceeded (gpud does not serve again), those of the programs.
absl::StatusOr<Recovery> TryRecovery(const RecoveryOptions& options);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_RECOVERY_H_
