#include "tools/testbed/supervisor/testbeds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "base/subprocess.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TestbedsTest : public ::testing::Test {
 protected:
  // Makes a directory such as a killed supervisor leaves.
  void MakeDead(const std::string& name) {
    const TestbedPaths paths = PathsOf(name);
    mkdir(paths.directory().c_str(), 0700);
    mkdir(paths.log_directory().c_str(), 0700);
    std::ofstream(paths.lock_file()) << "carillon testbed\n999999999 1\n";
    std::ofstream(paths.log_directory() + "/gpud.log") << "x";
  }
  LockedDirectory MakeUp(const std::string& name) {
    auto directory = LockedDirectory::Create(PathsOf(name));
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  }

  // A process that ignores requests to end, and whose mark can be seen.
  ChildProcess SpawnMarked(const TestbedPaths& paths,
                           const ProcessIdentity& supervisor) {
    auto child = ChildProcess::Spawn(
        {.argv = {FakeChild(), "stubborn"},
         .environment = {std::string(kSupervisorVariable) + "=" +
                         SupervisorMark(paths, supervisor)}});
    EXPECT_TRUE(child.ok()) << child.status();
    EXPECT_TRUE(Eventually([&] {
      const auto marked = MarkedProcesses(paths);
      return std::find(marked.begin(), marked.end(), child->identity()) !=
             marked.end();
    }));
    return *std::move(child);
  }

  TestFolder folder_;
};

TEST_F(TestbedsTest, AreListedByNameWithThoseThatAreDead) {
  MakeDead("old");
  const auto up = MakeUp("lab");
  mkdir((folder_.path() + "/other").c_str(), 0700);
  const auto testbeds = ListTestbeds();
  ASSERT_TRUE(testbeds.ok()) << testbeds.status();
  ASSERT_THAT(*testbeds, SizeIs(2));
  EXPECT_EQ((*testbeds)[0].name, "lab");
  EXPECT_TRUE((*testbeds)[0].supervisor);
  EXPECT_EQ((*testbeds)[1].name, "old");
  EXPECT_FALSE((*testbeds)[1].supervisor);
}

TEST_F(TestbedsTest, AreNoneWhereThereIsNoRuntimeDirectory) {
  setenv("CARILLON_RUNTIME_DIR", "/no/such/folder", 1);
  const auto testbeds = ListTestbeds();
  ASSERT_TRUE(testbeds.ok()) << testbeds.status();
  EXPECT_THAT(*testbeds, IsEmpty());
}

// What it left goes with the next `up`.
TEST_F(TestbedsTest, WhoAsksForADeadOneLearnsWhereItsLogsAre) {
  const auto none = ChooseTestbed("");
  EXPECT_EQ(none.status().message(), "no testbed is up");
  EXPECT_EQ(HintOf(none.status()), "start one with: carillon up");
  MakeDead("old");
  const auto dead = ChooseTestbed("");
  EXPECT_EQ(dead.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(dead.status().message(), "no testbed is up, and 'old' is dead");
  EXPECT_EQ(HintOf(dead.status()),
            "carillon postmortem says how it ended, carillon logs --name old "
            "has its logs; carillon up begins anew");
}

TEST_F(TestbedsTest, TheOnlyOneThatIsUpNeedsNoName) {
  MakeDead("old");

  const auto lab = MakeUp("lab");
  const auto one = ChooseTestbed("");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->name, "lab");

  const auto lab2 = MakeUp("lab2");
  const auto two = ChooseTestbed("");
  EXPECT_EQ(two.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(two.status().message(), "2 testbeds are up: lab and lab2");
  EXPECT_EQ(ChooseTestbed("lab2")->name, "lab2");
  EXPECT_EQ(ChooseTestbed("lba").status().message(),
            "there is no testbed 'lba'; did you mean 'lab'?");
}

TEST_F(TestbedsTest, ADeadOneIsClearedAwayWithItsProcesses) {
  MakeDead("old");
  const TestbedPaths paths = PathsOf("old");
  auto orphan = SpawnMarked(paths, {999999999, 1});
  auto stranger = ChildProcess::Spawn({.argv = {FakeChild(), "stubborn"}});
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  auto testbed = ChooseTestbed("old");
  ASSERT_TRUE(testbed.ok()) << testbed.status();
  const Leftovers leftovers = LeftoversOf(*testbed);
  EXPECT_THAT(leftovers.processes, ElementsAre(orphan.identity()));
  EXPECT_THAT(
      leftovers.files,
      ElementsAre(paths.lock_file(), paths.log_directory() + "/gpud.log"));
  // Listing changes nothing.
  EXPECT_TRUE(IsAlive(orphan.identity()));
  EXPECT_TRUE(fs::exists(paths.lock_file()));

  EXPECT_TRUE(ClearDead(*testbed).ok());
  EXPECT_FALSE(IsAlive(orphan.identity()));
  EXPECT_TRUE(IsAlive(stranger->identity()));
  EXPECT_FALSE(fs::exists(paths.directory()));
  EXPECT_TRUE(ClearDead(*testbed).ok());
}

TEST_F(TestbedsTest, OneComesUpOverADeadOneWithoutItsProcesses) {
  MakeDead("old");
  auto orphan = SpawnMarked(PathsOf("old"), {999999999, 1});
  const auto up = MakeUp("old");
  EXPECT_FALSE(IsAlive(orphan.identity()));
}

// A container's testbed has the same directory to its processes, and a
// supervisor whose pid is another's here.
TEST_F(TestbedsTest, AProcessInAContainerIsNoLeftover) {
  MakeDead("old");
  const auto unshare = FindProgram("unshare");
  ASSERT_TRUE(unshare.ok()) << unshare.status();
  auto container = ChildProcess::Spawn(
      {.argv = {*unshare, "--map-root-user", "--mount", FakeChild(),
                "stubborn"},
       .environment = {std::string(kSupervisorVariable) + "=" +
                       SupervisorMark(PathsOf("old"), {999999999, 1})}});
  ASSERT_TRUE(container.ok()) << container.status();
  const fs::path process = "/proc/" + std::to_string(container->identity().pid);
  std::error_code error;
  ASSERT_TRUE(Eventually([&] {
    return fs::read_symlink(process / "exe", error).filename() != "unshare" &&
           fs::read_symlink(process / "exe", error) !=
               fs::read_symlink("/proc/self/exe");
  }));
  if (!IsAlive(container->identity())) GTEST_SKIP() << "no namespaces here";
  const auto testbed = ChooseTestbed("old");
  ASSERT_TRUE(testbed.ok()) << testbed.status();
  EXPECT_THAT(LeftoversOf(*testbed).processes, IsEmpty());
  EXPECT_TRUE(ClearDead(*testbed).ok());
  EXPECT_TRUE(IsAlive(container->identity()));
}

// Two directories of one name, seen from two places: the mark names the
// supervisor that looks after a process.
TEST_F(TestbedsTest, AProcessWhoseSupervisorLivesIsNoLeftover) {
  MakeDead("old");
  auto supervisor = ChildProcess::Spawn({.argv = {FakeChild(), "stubborn"}});
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  auto process = SpawnMarked(PathsOf("old"), supervisor->identity());
  const auto testbed = ChooseTestbed("old");
  ASSERT_TRUE(testbed.ok()) << testbed.status();
  EXPECT_THAT(LeftoversOf(*testbed).processes, IsEmpty());
  EXPECT_TRUE(ClearDead(*testbed).ok());
  EXPECT_TRUE(IsAlive(process.identity()));
}

// A mark is the whole directory: it does not match another one with a colon in
// its name.
TEST_F(TestbedsTest, AMarkMeansOneDirectory) {
  MakeDead("old");
  auto other = SpawnMarked(TestbedPaths(PathsOf("old").directory() + ":7/lab"),
                           {999999999, 1});
  EXPECT_THAT(MarkedProcesses(PathsOf("old")), IsEmpty());
  const auto up = MakeUp("old");
  EXPECT_TRUE(IsAlive(other.identity()));
}

TEST_F(TestbedsTest, OneThatIsUpIsNotClearedAway) {
  const auto lab = MakeUp("lab");
  const auto testbed = ChooseTestbed("lab");
  ASSERT_TRUE(testbed.ok());
  EXPECT_EQ(ClearDead(*testbed).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(PathsOf("lab").lock_file()));
}

class UnwillingSupervisor : public TestbedsTest,
                            public ::testing::WithParamInterface<int> {};

TEST_P(UnwillingSupervisor, IsKilledAfterTheLimit) {
  // The child stands in for the supervisor.
  MakeDead("lab");
  const std::string log = folder_.path() + "/x.log";
  auto stubborn = ChildProcess::Spawn(
      {.argv = {FakeChild(), "hold", PathsOf("lab").lock_file()},
       .log_path = log});
  ASSERT_TRUE(stubborn.ok());
  ASSERT_TRUE(Eventually([&] { return FileText(log) == "waiting\n"; }));
  std::ofstream(PathsOf("lab").lock_file())
      << fmt::format("carillon testbed\n{} {}\n", stubborn->identity().pid,
                     stubborn->identity().start_ticks);
  const auto testbed = ChooseTestbed("lab");
  ASSERT_TRUE(testbed.ok() && testbed->supervisor);
  std::string said;
  const absl::Status status =
      EndTestbed(*testbed, std::chrono::milliseconds(GetParam()),
                 [&](const std::string& line) { said += line; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(said, fmt::format("the supervisor of 'lab' (pid {}) did not end "
                              "within {:.2f} s: killed",
                              stubborn->identity().pid, GetParam() / 1e3));
  EXPECT_FALSE(IsAlive(stubborn->identity()));
  EXPECT_FALSE(fs::exists(PathsOf("lab").directory()));
}

// In milliseconds. Without any time it still waits as long as a kill takes.
INSTANTIATE_TEST_SUITE_P(Limits, UnwillingSupervisor,
                         ::testing::Values(0, 100));

TEST(RemoveEmptyFolders, TakesNothingThatHoldsSomething) {
  const TestFolder folder;
  for (const char* name : {"empty", "other", "full"}) {
    ASSERT_TRUE(std::filesystem::create_directory(folder.path() + "/" + name));
  }
  std::ofstream(folder.path() + "/full/mine") << "text";
  std::ofstream(folder.path() + "/file") << "text";
  std::filesystem::create_directory_symlink(folder.path() + "/other",
                                            folder.path() + "/link");
  EXPECT_EQ(RemoveEmptyFolders("nobody"), std::vector<std::string>());
  EXPECT_EQ(RemoveEmptyFolders("empty"), std::vector<std::string>{"empty"});
  EXPECT_EQ(RemoveEmptyFolders(""), std::vector<std::string>{"other"});
  EXPECT_EQ(FileText(folder.path() + "/full/mine"), "text");
}

}  // namespace
}  // namespace carillon::testbed
