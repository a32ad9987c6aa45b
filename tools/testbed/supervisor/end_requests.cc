#include "tools/testbed/supervisor/end_requests.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace carillon::testbed {

EndRequests::EndRequests() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

EndRequests::~EndRequests() {
  // What came too late must not kill the process on its last steps.
  Take();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int EndRequests::Take() {
  int requests = 0;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) ++requests;
  return requests;
}

}  // namespace carillon::testbed
