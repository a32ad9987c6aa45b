// A testbed belongs to its user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/temp_directory.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;

TEST(OtherUserTest, ADeviceOfAnotherUserIsRefusedAndToldWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto testbed = testing::Testbed::Start();
  ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
  // A copy, because the other user may not look into the build's folder.
  const TempDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  const std::string fpga = directory.path() + "/fpga";
  std::filesystem::copy_file(testing::Program("devices/fpga/fpga"), fpga);
  const auto other = testing::Process::Start(
      "nobody", {"/usr/bin/setpriv", "--reuid", "65534", "--clear-groups", "--",
                 fpga, "--dir", (*testbed)->directory(), "--frames", "1"});
  ASSERT_TRUE(other.ok()) << std::string(other.status().message());
  EXPECT_EQ((*other)->Wait(), 1);
  EXPECT_THAT((*other)->output(), HasSubstr("belongs to another user"));
  EXPECT_EQ((*testbed)->Status().devices(), 0u);
}

}  // namespace
}  // namespace carillon
