// Starts control_test_peer, a process of its own, for a test.
#ifndef CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_
#define CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_

#include <signal.h>

#include <optional>
#include <string>

#include "base/line_process.h"

namespace carillon::gpud {

std::string ToHex(const std::string& bytes);

// It is killed with its object.
class TestPeer {
 public:
  TestPeer(const std::string& mode, const std::string& directory,
           const std::string& argument);
  pid_t pid() const { return process_->pid(); }
  // The next line that it prints; empty when there is none within 20 seconds.
  std::string ReadLine();
  // Kills and reaps it.
  void Kill() { process_->End(SIGKILL, {}); }

 private:
  std::optional<LineProcess> process_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_
