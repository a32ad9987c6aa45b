#include "tools/testbed/supervisor/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

using ::testing::HasSubstr;

class ChildProcessTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChildProcess> Spawn(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FakeChild());
    return ChildProcess::Spawn({.argv = arguments, .log_path = log_});
  }

  TestFolder folder_;
  const std::string log_ = folder_.path() + "/child.log";
};

TEST_F(ChildProcessTest, ReportsItsExitCode) {
  auto child = Spawn({"exit", "3"});
  ASSERT_TRUE(child.ok()) << child.status();
  const ExitReport report = WaitForExit(*child);
  EXPECT_EQ(report.code, 3);
  EXPECT_EQ(report.signal, 0);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.ToString(), "exit code 3");
}

TEST_F(ChildProcessTest, ReportsTheSignalThatEndedIt) {
  auto child = Spawn({"crash"});
  ASSERT_TRUE(child.ok()) << child.status();
  const ExitReport report = WaitForExit(*child);
  EXPECT_EQ(report.signal, SIGSEGV);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.ToString(), "SIGSEGV");
}

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

TEST_F(ChildProcessTest, IsKilledWhenItsObjectGoes) {
  ProcessIdentity identity;
  {
    auto child = Spawn({"stubborn"});
    ASSERT_TRUE(child.ok()) << child.status();
    identity = child->identity();
    ASSERT_TRUE(Eventually([&] { return FileText(log_) == "waiting\n"; }));
    child->Signal(SIGTERM);
    EXPECT_TRUE(IsAlive(identity));
  }
  EXPECT_FALSE(IsAlive(identity));
}

TEST_F(ChildProcessTest, StartsWithAFreshSignalStateInAGroupOfItsOwn) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  signal(SIGPIPE, SIG_IGN);
  auto child = Spawn({"describe"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(WaitForExit(*child).ok());
  EXPECT_EQ(FileText(log_),
            "leads its group: true\nblocks SIGTERM: false\n"
            "ignores SIGPIPE: false\ndies with: 9\ndevice name: none\n");
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
}

TEST_F(ChildProcessTest, GetsItsVariablesInPlaceOfTheParents) {
  setenv("CARILLON_DEVICE_NAME", "of the parent", 1);
  auto child = ChildProcess::Spawn({.argv = {FakeChild(), "describe"},
                                    .environment = {"CARILLON_DEVICE_NAME=x"},
                                    .log_path = log_});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(WaitForExit(*child).ok());
  EXPECT_THAT(FileText(log_), HasSubstr("device name: x\n"));
  unsetenv("CARILLON_DEVICE_NAME");
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

TEST_F(ChildProcessTest, SaysWhyItCannotStart) {
  EXPECT_EQ(
      ChildProcess::Spawn({.argv = {"/no/such/program"}}).status().ToString(),
      "NOT_FOUND: cannot run /no/such/program: No such file or "
      "directory");
  EXPECT_EQ(
      ChildProcess::Spawn({.argv = {"no_such_program_9"}}).status().ToString(),
      "NOT_FOUND: cannot run no_such_program_9: no such program in PATH");
  const std::string text_file = folder_.path() + "/text";
  std::ofstream(text_file) << "x";
  EXPECT_EQ(
      ChildProcess::Spawn({.argv = {text_file}}).status().ToString(),
      "PERMISSION_DENIED: cannot run " + text_file + ": Permission denied");
  // The file is executable but no program, so the kernel refuses it.
  chmod(text_file.c_str(), 0700);
  EXPECT_EQ(ChildProcess::Spawn({.argv = {text_file}}).status().ToString(),
            "INTERNAL: cannot run " + text_file + ": Exec format error");
  EXPECT_EQ(ChildProcess::Spawn({.argv = {FakeChild(), "exit", "0"},
                                 .log_path = "/no/such/folder/x.log"})
                .status()
                .message(),
            "cannot write /no/such/folder/x.log: No such file or directory");
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
