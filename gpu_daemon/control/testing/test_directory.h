#ifndef CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_DIRECTORY_H_
#define CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace carillon::gpud {

// A new directory with a short path (a socket's must be: not $TEST_TMPDIR),
// removed with all that it holds.
class TestDirectory {
 public:
  TestDirectory() {
    char path[] = "/tmp/gpud-test-XXXXXX";
    path_ = mkdtemp(path);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_DIRECTORY_H_
