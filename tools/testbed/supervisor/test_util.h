// What the tests of this folder share.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "tools/testbed/supervisor/child_process.h"

namespace carillon::testbed {

// The program in fake_child.cc.
inline std::string FakeChild() { return "tools/testbed/supervisor/fake_child"; }

// A folder with a short name (for Unix sockets), which is also the runtime
// directory.
class TestFolder {
 public:
  TestFolder() { setenv("CARILLON_RUNTIME_DIR", path().c_str(), 1); }
  ~TestFolder() { unsetenv("CARILLON_RUNTIME_DIR"); }
  const std::string& path() const { return folder_.path(); }

 private:
  const TempDirectory folder_;
};

// What can be read of it: a process' file goes with the process.
inline std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline ExitReport WaitForExit(ChildProcess& child) {
  pollfd ended{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 20'000), 1);
  return child.Reap().value_or(ExitReport{.code = -1});
}

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_TEST_UTIL_H_
