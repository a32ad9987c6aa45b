#include "devices/sdk/peer_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "fmt/format.h"

namespace carillon::edge {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBound{10'000};

// A process that listens, accepts one connection, and then only waits to be
// killed.
class Peer {
 public:
  Peer()
      : path_(fmt::format("{}/watch-{}.sock",
                          std::filesystem::temp_directory_path().string(),
                          getpid())) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    std::filesystem::remove(path_);
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      if (bind(listener, reinterpret_cast<sockaddr*>(&address),
               sizeof(address)) != 0 ||
          listen(listener, 1) != 0 || write(ready[1], "r", 1) != 1) {
        _exit(1);
      }
      const int connection = accept(listener, nullptr, nullptr);
      char command;
      // 'h': hang up, but live on.
      if (read(connection, &command, 1) == 1 && command == 'h')
        close(connection);
      while (true) pause();
    }
    close(ready[1]);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the peer did not come up";
    close(ready[0]);
    connection_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(connect(connection_.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
  }
  ~Peer() {
    kill(pid_, SIGKILL);
    if (!reaped_) waitpid(pid_, nullptr, 0);
    std::filesystem::remove(path_);
  }

  pid_t pid() const { return pid_; }
  int connection() const { return connection_.get(); }
  void Kill() { kill(pid_, SIGKILL); }
  void Reap() {
    waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }
  void HangUp() { EXPECT_EQ(write(connection_.get(), "h", 1), 1); }

 private:
  const std::string path_;
  pid_t pid_ = 0;
  bool reaped_ = false;
  UniqueFd connection_;
};

class PeerWatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<PeerWatch> Watch() {
    auto watch = PeerWatch::Start({.connection = peer_.connection(),
                                   .heartbeat_ns = &heartbeat_,
                                   .control = &control_});
    EXPECT_TRUE(watch.ok()) << std::string(watch.status().message());
    return *std::move(watch);
  }
  void SetReason(shm::CloseReason reason) {
    std::atomic_ref<uint32_t>(control_.closed)
        .store(static_cast<uint32_t>(reason));
  }

  Peer peer_;
  uint64_t heartbeat_ = 0;
  shm::CompletionControl control_{};
};

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST_F(PeerWatchTest, ALivingPeerIsNoEnd) {
  const auto watch = Watch();
  EXPECT_TRUE(watch->status().ok());
  EXPECT_FALSE(watch->closed().closed());
  EXPECT_EQ(watch->gpud_pid(), peer_.pid());
  EXPECT_FALSE(watch->WaitForEnd(milliseconds(0)));
}

TEST_F(PeerWatchTest, AKilledPeerClosesTheWordAndIsNamed) {
  const auto watch = Watch();
  peer_.Kill();
  ASSERT_TRUE(watch->WaitForEnd(kBound));
  EXPECT_TRUE(watch->closed().closed());
  const absl::Status status = watch->status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Message(status).rfind(
                fmt::format("PEER_DEAD: gpud (pid {}) died, ", peer_.pid()), 0),
            0u)
      << Message(status);
}

TEST_F(PeerWatchTest, TheSignalIsNamedWhereTheKernelTellsIt) {
  const auto watch = Watch();
  const UniqueFd pidfd(
      static_cast<int>(syscall(SYS_pidfd_open, peer_.pid(), 0)));
  peer_.Kill();
  ASSERT_TRUE(watch->WaitForEnd(kBound));
  peer_.Reap();
  const std::string how = HowItEnded(pidfd.get());
  if (how.empty())
    GTEST_SKIP() << "this kernel tells only a process's parent how it ended";
  EXPECT_EQ(how, "killed by SIGKILL");
  EXPECT_NE(Message(watch->status()).find("killed by SIGKILL"),
            std::string::npos);
}

TEST_F(PeerWatchTest, AHangUpOfALivingPeerIsNotCalledADeath) {
  const auto watch = Watch();
  peer_.HangUp();
  ASSERT_TRUE(watch->WaitForEnd(kBound));
  EXPECT_EQ(Message(watch->status()),
            fmt::format(
                "PEER_DEAD: gpud (pid {}) closed the session without a reason",
                peer_.pid()));
}

TEST_F(PeerWatchTest, TheReasonThatGpudGaveWinsOverItsDeath) {
  const auto watch = Watch();
  SetReason(shm::CloseReason::kEvicted);
  EXPECT_EQ(Message(watch->status()).rfind("EVICTED", 0), 0u);
  EXPECT_TRUE(watch->WaitForEnd(kBound));
  peer_.Kill();
  while (!watch->closed().closed()) {
    const std::array<shm::FutexWord, 1> words = {watch->closed().AsFutex()};
    ASSERT_EQ(shm::FutexWait(words, kBound), shm::WaitResult::kWoken);
  }
  EXPECT_EQ(Message(watch->status()).rfind("EVICTED", 0), 0u);
  SetReason(shm::CloseReason::kShutdown);
  EXPECT_EQ(Message(watch->status()).rfind("SHUTDOWN", 0), 0u);
  SetReason(shm::CloseReason::kLinkLost);
  EXPECT_EQ(Message(watch->status()).rfind("LINK_LOST", 0), 0u);
  // gpud does not say which of the two it was.
  EXPECT_NE(Message(watch->status())
                .find("the link is lost, or that host has ended the device"),
            std::string::npos);
}

TEST_F(PeerWatchTest, TheLeaseIsRenewedWhileThePeerLives) {
  const Nanoseconds before = NowNs();
  const auto watch = Watch();
  const auto beat = [&] {
    return std::atomic_ref<uint64_t>(heartbeat_)
        .load(std::memory_order_relaxed);
  };
  const Nanoseconds deadline =
      before + std::chrono::nanoseconds(kBound).count();
  while (beat() == 0 && NowNs() < deadline) std::this_thread::yield();
  const uint64_t first = beat();
  EXPECT_GE(first, before);
  while (beat() == first && NowNs() < deadline) std::this_thread::yield();
  EXPECT_GT(beat(), first);
}

}  // namespace
}  // namespace carillon::edge
