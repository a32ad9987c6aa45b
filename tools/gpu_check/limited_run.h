// One program with a time limit, run so that it cannot take its starter along.
#ifndef CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_
#define CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace carillon::gpu_check {

struct LimitedCommand {
  std::vector<std::string> argv;  // a path, and its arguments
  // Added to our own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // Descriptors that become its stdout and stderr; its stdin is empty.
  int out = -1;
  int err = -1;
  std::chrono::milliseconds limit{0};
  // From SIGTERM to SIGKILL, once the limit has passed.
  std::chrono::milliseconds grace{2000};
  // What a process in the driver may take to go after SIGKILL.
  std::chrono::milliseconds burial{5000};
};

struct LimitedResult {
  enum class End {
    kExited,
    kSignalled,    // `code` is the signal
    kTimedOut,     // killed at its limit
    kUnkillable,   // the same, and it is still there
    kInterrupted,  // we were asked to end, and it was killed
    kNotStarted,   // `code` is errno
  };
  End end = End::kNotStarted;
  int code = 0;
  std::chrono::milliseconds time{0};
};

// SIGCHLD, SIGINT and SIGTERM, which RunLimited() waits for: to be called once,
// by the only thread.
void BlockSignalsOfRuns();

// Returns when it has ended, at the latest after limit + grace + burial. The
// processes that it started and left in its group are killed with it; it is
// killed with its starter.
LimitedResult RunLimited(const LimitedCommand& command);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_
