#include "tools/testbed/supervisor/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/status.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Touch(const std::string& path) { std::ofstream(path) << "x"; }

// Makes a socket file, with a listener or without.
UniqueFd MakeSocket(const std::string& path, bool listening) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(
      bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  if (listening) {
    EXPECT_EQ(listen(fd.get(), 1), 0);
  }
  return fd;
}

class DirectoryTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  const TestbedPaths paths_ = PathsOf("demo");
};

TEST_F(DirectoryTest, IsForItsOwnerOnly) {
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  struct stat facts;
  ASSERT_EQ(stat(paths_.directory().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  EXPECT_TRUE(fs::is_directory(paths_.log_directory()));
}

TEST_F(DirectoryTest, LosesTheRightsOfOthersThatItHad) {
  mkdir(paths_.directory().c_str(), 0755);
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  struct stat facts;
  ASSERT_EQ(stat(paths_.directory().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
}

TEST_F(DirectoryTest, IsLockedAgainstASecondTestbedOfItsName) {
  auto first = LockedDirectory::Create(paths_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = LockedDirectory::Create(paths_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(second.status().message(),
            fmt::format("testbed 'demo' is already up (pid {})", getpid()));
  EXPECT_EQ(HintOf(second.status()),
            "carillon down --name demo, or choose another --name");
  EXPECT_EQ(LockedDirectory::TakeOver(paths_).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(SupervisorOf(paths_), OwnIdentity());
}

TEST_F(DirectoryTest, KeepsTheRightsThatItHasWhenASecondTestbedIsRefused) {
  auto first = LockedDirectory::Create(paths_);
  ASSERT_TRUE(first.ok()) << first.status();
  chmod(paths_.directory().c_str(), 0710);
  EXPECT_FALSE(LockedDirectory::Create(paths_).ok());
  struct stat facts;
  ASSERT_EQ(stat(paths_.directory().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0710u);
}

TEST_F(DirectoryTest, LeavesNothingWhenItIsRemoved) {
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto socket = MakeSocket(paths_.control_socket(), false);
  Touch(paths_.state_file());
  Touch(paths_.gpud_lock());
  Touch(paths_.log_directory() + "/gpud.log");
  EXPECT_TRUE(directory->Remove().ok());
  EXPECT_FALSE(fs::exists(paths_.directory()));
  // The folder above is the user's own.
  EXPECT_TRUE(fs::exists(folder_.path()));
  EXPECT_TRUE(LockedDirectory::Create(paths_).ok());
}

// As on a disk that is full.
TEST_F(DirectoryTest, LeavesNothingWhereItsMarkCannotBeWritten) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto directory = LockedDirectory::Create(paths_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(directory.status()))
      << directory.status();
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(DirectoryTest, RemovesTheDefaultFolderAboveToo) {
  unsetenv("CARILLON_RUNTIME_DIR");
  setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  const TestbedPaths paths = PathsOf("demo");
  auto directory = LockedDirectory::Create(paths);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_TRUE(fs::exists(folder_.path() + "/carillon/demo"));
  EXPECT_TRUE(directory->Remove().ok());
  EXPECT_FALSE(fs::exists(folder_.path() + "/carillon"));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(DirectoryTest, OfADeadTestbedIsTakenOverClean) {
  mkdir(paths_.directory().c_str(), 0700);
  mkdir(paths_.log_directory().c_str(), 0700);
  std::ofstream(paths_.lock_file()) << "carillon testbed\n999999999 1\n";
  MakeSocket(paths_.control_socket(), false);
  MakeSocket(paths_.handover_socket(), false);
  Touch(paths_.state_file());
  Touch(paths_.log_directory() + "/gpud.log");
  EXPECT_TRUE(IsTestbedDirectory(paths_));
  EXPECT_FALSE(SupervisorOf(paths_));
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_THAT(TestbedFiles(paths_), ElementsAre(paths_.lock_file()));
}

TEST_F(DirectoryTest, IsTakenOverFromAnOwnerWhoseLastThreadIsStillEnding) {
  mkdir(paths_.directory().c_str(), 0700);
  std::ofstream(paths_.lock_file()) << "carillon testbed\n999999999 1\n";
  UniqueFd lock(open(paths_.lock_file().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock.reset();
  });
  EXPECT_TRUE(LockedDirectory::TakeOver(paths_).ok());
  ending.join();
}

TEST_F(DirectoryTest, WithForeignFilesIsLeftAsItIs) {
  mkdir(paths_.directory().c_str(), 0700);
  Touch(paths_.directory() + "/thesis.tex");
  Touch(paths_.directory() + "/\x1b[2J");
  const auto directory = LockedDirectory::Create(paths_);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(directory.status().message(),
            paths_.directory() +
                " holds what no testbed makes: '\\x1b[2J' and 'thesis.tex'");
  EXPECT_TRUE(fs::exists(paths_.directory() + "/thesis.tex"));
}

TEST_F(DirectoryTest, KeepsForeignFilesWhenItIsRemoved) {
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  Touch(paths_.directory() + "/notes.txt");
  EXPECT_EQ(directory->Remove().message(),
            "left " + paths_.directory() + " there: it holds 'notes.txt'");
  EXPECT_TRUE(fs::exists(paths_.directory() + "/notes.txt"));
  // The leftover directory is found again, and goes once the foreign file has
  // gone.
  EXPECT_TRUE(IsTestbedDirectory(paths_));
  fs::remove(paths_.directory() + "/notes.txt");
  EXPECT_TRUE(directory->Remove().ok());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(DirectoryTest, KeepsForeignFilesAmongItsLogs) {
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  Touch(paths_.log_directory() + "/gpud.log");
  Touch(paths_.log_directory() + "/core.7");
  fs::create_directory(paths_.log_directory() + "/old.log");
  const absl::Status status = directory->Remove();
  EXPECT_EQ(status.message(), "left " + paths_.directory() +
                                  " there: it holds 'logs/core.7' and "
                                  "'logs/old.log'");
  EXPECT_EQ(HintOf(status), "move it away, then: carillon cleanup");
  EXPECT_TRUE(fs::exists(paths_.log_directory() + "/core.7"));
  EXPECT_FALSE(fs::exists(paths_.log_directory() + "/gpud.log"));
  EXPECT_TRUE(IsTestbedDirectory(paths_));
}

TEST_F(DirectoryTest, TakesItsRecordingsWithIt) {
  const std::string recordings = paths_.recorder_directory();
  const std::string own = recordings + "/nic0-7.rec";
  const std::string clock = recordings + "/peer.clock";
  {
    auto directory = LockedDirectory::Create(paths_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    mkdir(recordings.c_str(), 0700);
    Touch(own);
    Touch(clock);
    Touch(clock + ".Wr1t3n");
    EXPECT_THAT(TestbedFiles(paths_), ::testing::Contains(own));
    directory->RemoveSockets();
    EXPECT_TRUE(fs::exists(own));
    Touch(recordings + "/notes.txt");
    EXPECT_EQ(
        directory->Remove().message(),
        "left " + paths_.directory() + " there: it holds 'recorder/notes.txt'");
    EXPECT_FALSE(fs::exists(own));
    EXPECT_FALSE(fs::exists(clock));
    fs::remove(recordings + "/notes.txt");
    Touch(own);
  }
  auto directory = LockedDirectory::Create(paths_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_FALSE(fs::exists(own));
  EXPECT_TRUE(directory->Remove().ok());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(DirectoryTest, IsNotTakenFromAGpudStartedByHand) {
  mkdir(paths_.directory().c_str(), 0700);
  const auto listener = MakeSocket(paths_.control_socket(), true);
  const auto directory = LockedDirectory::Create(paths_);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(directory.status().message(),
            "a gpud that carillon did not start serves on " +
                paths_.control_socket());
  EXPECT_TRUE(fs::exists(paths_.control_socket()));
}

TEST_F(DirectoryTest, OfAnotherUserIsRefused) {
  if (geteuid() != 0) {  // who cannot give a folder away
    EXPECT_EQ(CheckDirectoryOwner("/").code(),
              absl::StatusCode::kPermissionDenied);
    return;
  }
  mkdir(paths_.directory().c_str(), 0700);
  ASSERT_EQ(chown(paths_.directory().c_str(), 65534, 65534), 0);
  const auto directory = LockedDirectory::Create(paths_);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(directory.status().message(),
            paths_.directory() +
                " belongs to nobody (uid 65534), not to root (uid 0)");
  ASSERT_EQ(chown(folder_.path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(
      LockedDirectory::Create(paths_).status().message(),
      folder_.path() + " belongs to nobody (uid 65534), not to root (uid 0)");
  ASSERT_EQ(chown(folder_.path().c_str(), 0, 0), 0);
}

TEST_F(DirectoryTest, ThatIsALinkIsRefused) {
  mkdir((folder_.path() + "/elsewhere").c_str(), 0700);
  fs::create_symlink(folder_.path() + "/elsewhere", paths_.directory());
  EXPECT_EQ(LockedDirectory::Create(paths_).status().message(),
            paths_.directory() + " is a link, not a folder");
}

TEST_F(DirectoryTest, ThatOthersMayWriteToIsRefused) {
  chmod(folder_.path().c_str(), 0770);
  const auto directory = LockedDirectory::Create(paths_);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(directory.status().message(),
            "others may write to " + folder_.path() + " (mode 0770)");
  EXPECT_EQ(HintOf(directory.status()), "chmod go-w " + folder_.path());
}

TEST_F(DirectoryTest, WithATooLongPathIsRefusedBeforeItIsMade) {
  const std::string name(32, 'n');
  const std::string runtime = folder_.path() + "/" + std::string(60, 'r');
  setenv("CARILLON_RUNTIME_DIR", runtime.c_str(), 1);
  const TestbedPaths paths = PathsOf(name);
  const auto directory = LockedDirectory::Create(paths);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(directory.status().message(),
            CheckSocketPath(paths.handover_socket()).message());
  EXPECT_FALSE(fs::exists(runtime));
}

TEST(SocketPath, IsAsLongAsAnAddressHolds) {
  EXPECT_TRUE(CheckSocketPath(std::string(107, 's')).ok());
  const std::string path(108, 's');
  EXPECT_EQ(CheckSocketPath(path),
            absl::InvalidArgumentError(fmt::format(
                "the socket's path {} has 108 bytes: the limit is 107; choose "
                "a shorter directory for the testbed",
                path)));
}

TEST_F(DirectoryTest, FitsAtTheLongestPathThatASocketMayHave) {
  const size_t room = 107 - std::string("/supervisor.sock").size();
  const TestbedPaths fits(std::string(room, 'd'));
  EXPECT_TRUE(CheckSocketPaths(fits).ok());
  const TestbedPaths too_long(std::string(room + 1, 'd'));
  EXPECT_FALSE(CheckSocketPaths(too_long).ok());
}

TEST_F(DirectoryTest, IsNotFoundWhereThereIsNoTestbed) {
  EXPECT_EQ(LockedDirectory::TakeOver(paths_).status().code(),
            absl::StatusCode::kNotFound);
  mkdir(paths_.directory().c_str(), 0700);
  EXPECT_EQ(LockedDirectory::TakeOver(paths_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(DirectoryTest, HasOnePathHoweverTheRuntimeDirectoryIsSpelt) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  for (const std::string& spelling :
       {std::string("."), std::string("./x/.."), folder_.path() + "/",
        folder_.path() + "//", folder_.path() + "/x/../"}) {
    setenv("CARILLON_RUNTIME_DIR", spelling.c_str(), 1);
    EXPECT_EQ(PathsOf("demo").directory(), paths_.directory()) << spelling;
  }
  fs::current_path(before);
}

TEST_F(DirectoryTest, IsNotMadeInAFolderThatIsNotThere) {
  setenv("CARILLON_RUNTIME_DIR", "/no/such/folder", 1);
  const auto status = LockedDirectory::Create(PathsOf("demo")).status();
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("cannot make the folder /no/such/folder: No such file"));
  EXPECT_THAT(HintOf(status), HasSubstr("set CARILLON_RUNTIME_DIR"));
}

}  // namespace
}  // namespace carillon::testbed
