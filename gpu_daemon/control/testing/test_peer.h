// Starts control_test_peer, a process of its own, for a test.
#ifndef CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_
#define CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_

#include <sys/types.h>

#include <string>

#include "base/unique_fd.h"

namespace carillon::gpud {

std::string ToHex(const std::string& bytes);

class TestPeer {
 public:
  TestPeer(const std::string& mode, const std::string& directory,
           const std::string& argument);
  ~TestPeer();  // kills it
  pid_t pid() const { return pid_; }
  // The next line that it prints; empty when there is none within 20 seconds.
  std::string ReadLine();
  // Kills and reaps it.
  void Kill();

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_PEER_H_
