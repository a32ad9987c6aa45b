#include "gpu_daemon/control/net/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_directory.h"

namespace carillon::gpud {
namespace {

UniqueFd Connect(const std::string& path, int type = SOCK_STREAM) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd.reset();
  }
  return fd;
}

class UnixListenerTest : public ::testing::Test {
 protected:
  TempDirectory directory_;
  const std::string path_ = directory_.path() + "/a.sock";
};

TEST_F(UnixListenerTest, TheSocketIsPrivateAndGoesWithItsListener) {
  {
    auto listener = UnixListener::Listen(path_, SOCK_STREAM);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat info;
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const UnixListener moved = *std::move(listener);
    EXPECT_TRUE(Connect(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, AStaleSocketIsReplaced) {
  // A listener that dies without cleaning up leaves its socket.
  UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(
      bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  dead.reset();
  ASSERT_TRUE(std::filesystem::exists(path_));
  auto listener = UnixListener::Listen(path_, SOCK_STREAM);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Connect(path_));
}

TEST_F(UnixListenerTest, ASocketThatIsServedOnIsLeftAlone) {
  auto first = UnixListener::Listen(path_, SOCK_SEQPACKET);
  ASSERT_TRUE(first.ok());
  auto second = UnixListener::Listen(path_, SOCK_SEQPACKET);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Connect(path_, SOCK_SEQPACKET));
}

TEST_F(UnixListenerTest, AFileThatIsNoSocketIsLeftAlone) {
  std::ofstream(path_) << "precious";
  auto listener = UnixListener::Listen(path_, SOCK_STREAM);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(UnixListenerTest, APathTooLongForASocketIsNamed) {
  const std::string path = directory_.path() + "/" + std::string(120, 'x');
  auto listener = UnixListener::Listen(path, SOCK_STREAM);
  ASSERT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(listener.status().message());
  EXPECT_NE(message.find("the limit is 107"), std::string::npos) << message;
}

TEST_F(UnixListenerTest, WithoutDescriptorsConnectionsAreRefusedNotKept) {
  auto listener = UnixListener::Listen(path_, SOCK_STREAM);
  ASSERT_TRUE(listener.ok());
  const UniqueFd client = Connect(path_);
  ASSERT_TRUE(client);
  rlimit saved;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &saved), 0);
  std::vector<UniqueFd> hoard;
  for (UniqueFd fd(dup(0)); fd; fd.reset(dup(0))) {
    if (hoard.empty()) {
      rlimit low = saved;
      low.rlim_cur = static_cast<rlim_t>(fd.get()) + 8;
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    }
    hoard.push_back(std::move(fd));
  }
  EXPECT_FALSE(listener->Accept());
  hoard.clear();
  setrlimit(RLIMIT_NOFILE, &saved);
  char byte;
  EXPECT_EQ(read(client.get(), &byte, 1), 0);  // end of file: refused
  EXPECT_FALSE(listener->Accept());            // and nobody is left waiting
}

}  // namespace
}  // namespace carillon::gpud
