// The NVIDIA driver that is CPU threads, for a gpud of a test's testbed.
#ifndef CARILLON_INTEGRATION_TESTS_FAKE_DRIVER_H_
#define CARILLON_INTEGRATION_TESTS_FAKE_DRIVER_H_

#include <cstdlib>
#include <filesystem>

#include "integration_tests/testbed_process.h"

namespace carillon::testing {

// What starts while it lives finds that libcuda.so.1. The test has
// //gpu_daemon/backends/cuda/fake:libcuda.so.1 as data.
class FakeDriver {
 public:
  FakeDriver() {
    setenv(kPath,
           std::filesystem::absolute(
               Program("gpu_daemon/backends/cuda/fake/libcuda.so.1"))
               .parent_path()
               .c_str(),
           1);
  }
  ~FakeDriver() { unsetenv(kPath); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

 private:
  static constexpr const char* kPath = "LD_LIBRARY_PATH";
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_FAKE_DRIVER_H_
