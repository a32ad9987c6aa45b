#include "gpu_daemon/control/net/daemon_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/temp_directory.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

TEST(DaemonLock, OneHolderADirectoryAndItsPidIsNamed) {
  TempDirectory directory;
  auto first = DaemonLock::Take(directory.path(), "lab");
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = DaemonLock::Take(directory.path(), "lab");
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(
      std::string(second.status().message())
          .find(fmt::format("testbed lab is already up (pid {})", getpid())),
      std::string::npos)
      << second.status();
}

TEST(DaemonLock, IsFreeAgainAfterwardsAndLeavesNoFile) {
  TempDirectory directory;
  {
    auto first = DaemonLock::Take(directory.path(), "lab");
    ASSERT_TRUE(first.ok());
    const DaemonLock moved = *std::move(first);
    EXPECT_FALSE(DaemonLock::Take(directory.path(), "lab").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_TRUE(DaemonLock::Take(directory.path(), "lab").ok());
}

TEST(DaemonLock, AFileThatADeadProcessLeftIsNoObstacle) {
  TempDirectory directory;
  std::ofstream(directory.path() + "/gpud.lock") << "12345678901\n";
  auto lock = DaemonLock::Take(directory.path(), "lab");
  ASSERT_TRUE(lock.ok()) << lock.status();
  std::string pid;
  std::ifstream(directory.path() + "/gpud.lock") >> pid;
  EXPECT_EQ(pid, std::to_string(getpid()));
}

TEST(DaemonLock, CountsTheDeathsSinceTheLastOrderlyEnd) {
  TempDirectory directory;
  const std::string path = directory.path() + "/gpud.lock";
  for (const auto& [left, deaths] :
       {std::pair{"", 0u}, std::pair{"17 0\n", 1u}, std::pair{"17 41\n", 42u},
        std::pair{"17\n", 1u}, std::pair{"rubbish 7\n", 0u},
        std::pair{"-4 7\n", 0u}}) {
    std::ofstream(path) << left;
    auto lock = DaemonLock::Take(directory.path(), "lab");
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_EQ(lock->deaths(), deaths) << left;
  }
  EXPECT_EQ(DaemonLock::Take(directory.path(), "lab")->deaths(), 0u);
}

TEST(PrepareDirectory, MakesAPrivateOneAndRefusesOneThatOthersMayWrite) {
  TempDirectory parent;
  const std::string path = parent.path() + "/testbed";
  ASSERT_TRUE(PrepareDirectory(path).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(PrepareDirectory(path).ok());

  ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  EXPECT_EQ(PrepareDirectory(path).code(),
            absl::StatusCode::kFailedPrecondition);
  std::ofstream(parent.path() + "/file") << "x";
  EXPECT_EQ(PrepareDirectory(parent.path() + "/file").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PrepareDirectory(parent.path() + "/no/such/parent").code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace carillon::gpud
