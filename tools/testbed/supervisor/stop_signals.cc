#include "tools/testbed/supervisor/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace carillon::testbed {

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

StopSignals::~StopSignals() {
  // A late signal must not kill the process on its last steps.
  Take();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::Take() {
  int requests = 0;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) ++requests;
  return requests;
}

}  // namespace carillon::testbed
