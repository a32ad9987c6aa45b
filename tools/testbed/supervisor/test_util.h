// What the tests of this folder share.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "tools/testbed/supervisor/child_process.h"

namespace carillon::testbed {

// The program in fake_child.cc.
inline std::string FakeChild() { return "tools/testbed/supervisor/fake_child"; }

// A folder with a short name (for Unix sockets), which is also the runtime
// directory.
class TestFolder {
 public:
  TestFolder() {
    char name[] = "/tmp/carillon_test_XXXXXX";
    path_ = mkdtemp(name);
    setenv("CARILLON_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~TestFolder() {
    unsetenv("CARILLON_RUNTIME_DIR");
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Checks repeatedly until `condition` holds; returns false after 20 s.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline ExitReport WaitForExit(ChildProcess& child) {
  pollfd ended{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 20'000), 1);
  return child.Reap().value_or(ExitReport{.code = -1});
}

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_
