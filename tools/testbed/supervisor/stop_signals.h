// Makes Ctrl-C, SIGTERM and SIGHUP something to poll instead of an
// interruption.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_STOP_SIGNALS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_STOP_SIGNALS_H_

#include <signal.h>

#include "base/unique_fd.h"

namespace carillon::testbed {

// Blocks the three signals during its life, in this thread and in all that it
// starts. Make it before gRPC starts its own threads.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when there is something to take.
  int fd() const { return fd_.get(); }
  // How many requests came since the last call.
  int Take();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_STOP_SIGNALS_H_
