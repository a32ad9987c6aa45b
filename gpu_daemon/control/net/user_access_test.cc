#include "gpu_daemon/control/net/user_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"

namespace carillon::gpud {
namespace {

using ::testing::HasSubstr;

uint32_t ModeOf(const std::string& path) {
  struct stat facts {};
  stat(path.c_str(), &facts);
  return facts.st_mode & 0777;
}

class UserAccessTest : public ::testing::Test {
 protected:
  // Of those, every user namespace has one: our own.
  const std::vector<uid_t> users_ = {geteuid()};
  const TempDirectory directory_;
};

TEST_F(UserAccessTest, TheUserIsAddedAndTheGroupAndOthersAreNot) {
  const std::string file = directory_.path() + "/file";
  std::ofstream{file};
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  ASSERT_TRUE(LetUsers(file, users_, UserAccess::kReadAndWrite).ok());
  // In the place of the group's rights stands the most that any list gives.
  EXPECT_EQ(ModeOf(file), 0660u);

  ASSERT_TRUE(
      LetUsers(directory_.path(), users_, UserAccess::kPassThrough).ok());
  EXPECT_EQ(ModeOf(directory_.path()), 0710u);
  // version 2; owner rwx; the user x; group nothing; at most x; others nothing
  std::string list(128, 0);
  list.resize(static_cast<size_t>(getxattr(directory_.path().c_str(),
                                           "system.posix_acl_access",
                                           list.data(), list.size())));
  const uint32_t uid = geteuid();
  const std::string expected =
      std::string(
          "\2\0\0\0"
          "\1\0\7\0\xff\xff\xff\xff"
          "\2\0\1\0",
          16) +
      std::string(reinterpret_cast<const char*>(&uid), sizeof(uid)) +
      std::string(
          "\4\0\0\0\xff\xff\xff\xff"
          "\x10\0\1\0\xff\xff\xff\xff"
          "\x20\0\0\0\xff\xff\xff\xff",
          24);
  EXPECT_EQ(list, expected);
}

TEST_F(UserAccessTest, AFileSystemWithoutListsIsNamed) {
  const absl::Status status =
      LetUsers("/proc/self/comm", users_, UserAccess::kReadAndWrite);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/proc/self/comm is on a file system without access "
                        "control lists"));
}

}  // namespace
}  // namespace carillon::gpud
