#include "devices/cpu_host/workload.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/temp_directory.h"
#include "devices/sdk/edge.h"
#include "devices/sdk/fake_gpud.h"

namespace carillon::cpu_host {
namespace {

// A gpud that is stopped, or has much to do, may answer an hour later.
TEST(WorkloadTest, ALaunchWaitsAsLongAsGpudLives) {
  const TempDirectory directory;
  edge::FakeGpud gpud(directory.path());
  edge::AttachOptions options;
  options.testbed_directory = directory.path();
  options.name = "host0";
  auto device = edge::Device::Attach(options);
  ASSERT_TRUE(device.ok()) << device.status();
  auto workload = MakeWorkload("busy", {});
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_TRUE((*workload)->Prepare(**device).ok());
  const auto ran = (*workload)->Run(**device);
  ASSERT_TRUE(ran.ok()) << ran.status();
  const auto seen = gpud.seen();
  EXPECT_EQ(seen.launch.kernel(), "busy");
  EXPECT_GT(seen.launch_deadline,
            std::chrono::system_clock::now() + std::chrono::hours(24 * 30));
}

}  // namespace
}  // namespace carillon::cpu_host
