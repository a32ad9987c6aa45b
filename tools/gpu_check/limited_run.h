// Runs one program with a time limit, so that it cannot take its starter along.
#ifndef CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_
#define CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_

#include <chrono>
#include <string>
#include <vector>

namespace carillon::gpu_check {

struct LimitedCommand {
  std::vector<std::string> argv;         // a path, and its arguments
  std::vector<std::string> environment;  // "NAME=VALUE", beside our own
  // Descriptors that become its stdout and stderr; its stdin is empty.
  int out = -1;
  int err = -1;
  std::chrono::milliseconds limit{0};
  // The time from SIGTERM to SIGKILL, once the limit has passed.
  std::chrono::milliseconds grace{2000};
  // How long a process inside the driver may take to end after SIGKILL.
  std::chrono::milliseconds kill_grace{5000};
};

struct LimitedResult {
  enum class End {
    kExited,
    kSignalled,    // `code` is the signal
    kTimedOut,     // killed at its limit
    kUnkillable,   // the same, and it is still there
    kInterrupted,  // we were asked to end, and it was killed
    kNotStarted,   // `why`
  };
  End end = End::kNotStarted;
  int code = 0;
  std::chrono::milliseconds time{0};
  std::string why;
};

// Blocks SIGINT and SIGTERM, which RunLimited() waits for. Call it once, while
// there is only one thread.
void BlockSignalsOfRuns();

// Returns when the program has ended, at the latest after limit + grace +
// 2 * kill_grace. Kills the processes that it started and left, in its group or in
// a session of their own. The program is killed with its starter. One thread, which
// starts no other process meanwhile.
LimitedResult RunLimited(const LimitedCommand& command);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_LIMITED_RUN_H_
