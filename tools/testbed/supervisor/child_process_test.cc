#include "tools/testbed/supervisor/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

class ChildProcessTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChildProcess> Spawn(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FakeChild());
    return ChildProcess::Spawn({.argv = arguments, .log_path = log_});
  }

  TestFolder folder_;
  const std::string log_ = folder_.path() + "/child.log";
};

TEST_F(ChildProcessTest, RunsUntilItIsAskedToEnd) {
  auto child = Spawn({"wait"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(IsAlive(child->identity()));
  EXPECT_FALSE(child->Reap());
  ASSERT_TRUE(Eventually([&] { return FileText(log_) == "waiting\n"; }));
  child->Signal(SIGTERM);
  EXPECT_TRUE(WaitForExit(*child).ok());
  EXPECT_FALSE(IsAlive(child->identity()));
}

TEST_F(ChildProcessTest, LeavesNothingOfItsGroupRunning) {
  auto child = Spawn({"leave"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(WaitForExit(*child).ok());
  EXPECT_EQ(child->left_behind(), 1);
  EXPECT_TRUE(Eventually([&] { return kill(-child->identity().pid, 0) != 0; }));
}

TEST_F(ChildProcessTest, DiesWithItsParent) {
  auto parent = Spawn({"parent", FakeChild()});
  ASSERT_TRUE(parent.ok()) << parent.status();
  ASSERT_TRUE(Eventually(
      [&] { return FileText(log_).find("waiting") != std::string::npos; }));
  const auto grandchild = LookAtProcess(atoi(FileText(log_).c_str()));
  ASSERT_TRUE(grandchild);
  ASSERT_TRUE(IsAlive(grandchild->identity));
  // Kill only the parent, which then cannot clean up.
  kill(parent->identity().pid, SIGKILL);
  EXPECT_EQ(WaitForExit(*parent).signal, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(grandchild->identity); }));
}

TEST_F(ChildProcessTest, IsNoLivingProcessBetweenItsEndAndItsReaping) {
  auto child = Spawn({"exit", "0"});
  ASSERT_TRUE(child.ok()) << child.status();
  pollfd ended{child->pidfd(), POLLIN, 0};
  ASSERT_EQ(poll(&ended, 1, 20'000), 1);
  EXPECT_TRUE(LookAtProcess(child->identity().pid));
  EXPECT_FALSE(LookAtLiving(child->identity()));
}

TEST(ProcessIdentity, TellsAReusedPidFromItsFormerProcess) {
  const ProcessIdentity own = OwnIdentity();
  EXPECT_TRUE(IsAlive(own));
  EXPECT_EQ(LookAtLiving(own)->identity, own);
  EXPECT_FALSE(IsAlive({own.pid, own.start_ticks + 1}));
  EXPECT_FALSE(IsAlive({0, 0}));
}

}  // namespace
}  // namespace carillon::testbed
