#include "gpu_daemon/control/net/peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

struct Pair {
  UniqueFd ours;
  UniqueFd theirs;
};

Pair MakePair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A child process that made the socket pair whose one end the test holds: for
// the kernel it is the peer. Waits until it is killed.
class Child {
 public:
  Child() {
    int channel[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    pid_ = fork();
    if (pid_ == 0) RunChild(channel[1]);
    ::close(channel[1]);
    connection_ = Receive(channel[0]);
    ::close(channel[0]);
  }
  ~Child() { Kill(); }
  pid_t pid() const { return pid_; }
  int connection() const { return connection_.get(); }
  // Dead and not yet waited for: its pid is still its own.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void Reap() {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void RunChild(int channel) {
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    char byte = 0;
    iovec payload{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &payload;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(part)) = ends[0];
    sendmsg(channel, &message, 0);
    while (true) pause();
  }
  static UniqueFd Receive(int channel) {
    char byte = 0;
    iovec payload{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &payload;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    EXPECT_EQ(recvmsg(channel, &message, MSG_CMSG_CLOEXEC), 1);
    return UniqueFd(
        *reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))));
  }

  pid_t pid_ = -1;
  UniqueFd connection_;
};

TEST(CheckUser, LetsInTheOwnUserAndRootOnly) {
  EXPECT_TRUE(CheckUser(1000, 1000).ok());
  EXPECT_TRUE(CheckUser(0, 1000).ok());
  const absl::Status status = CheckUser(1001, 1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(status.message()).find("uid 1001"), std::string::npos);
  EXPECT_FALSE(CheckUser(1000, 0).ok());
}

TEST(CheckUser, LetsInTheUsersWhoAreNamedBesideThem) {
  const std::vector<uid_t> also = {1001, 65534};
  EXPECT_TRUE(CheckUser(1000, 1000, also).ok());
  EXPECT_TRUE(CheckUser(0, 1000, also).ok());
  EXPECT_TRUE(CheckUser(1001, 1000, also).ok());
  EXPECT_TRUE(CheckUser(65534, 1000, also).ok());
  EXPECT_EQ(CheckUser(1002, 1000, also).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(PeerTable, FindsACallerByTheNumberOfItsConnection) {
  PeerTable peers;
  const Pair pair = MakePair();
  bool is_new = false;
  auto admitted = peers.Admit(pair.ours.get(), pair.ours.get(), &is_new);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_TRUE(is_new);
  EXPECT_EQ((*admitted)->pid, getpid());
  EXPECT_EQ((*admitted)->uid, geteuid());
  EXPECT_TRUE((*admitted)->alive());
  const std::string number = std::to_string(pair.ours.get());
  EXPECT_EQ(peers.Find("fd:" + number), *admitted);
  for (const std::string& other :
       {std::string("fd:99999"), std::string("unix:"), std::string("fd:"),
        std::string(), "fd:" + number + "x", "ipv4:127.0.0.1:" + number}) {
    EXPECT_EQ(peers.Find(other), nullptr) << other;
  }
}

TEST(PeerTable, AProcessIsOnePeerHoweverOftenItConnects) {
  PeerTable peers;
  const Pair first = MakePair();
  const Pair second = MakePair();
  bool is_new = false;
  auto a = peers.Admit(first.ours.get(), first.ours.get(), &is_new);
  auto b = peers.Admit(second.ours.get(), second.ours.get(), &is_new);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(is_new);
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(peers.size(), 1u);
  peers.Forget(**a);
  EXPECT_EQ(peers.size(), 0u);
  EXPECT_EQ(peers.Find("fd:" + std::to_string(second.ours.get())), nullptr);
}

TEST(PeerTable, AReusedNumberBelongsToWhoConnectedLast) {
  PeerTable peers;
  Pair pair = MakePair();
  bool is_new = false;
  const int number = pair.ours.get();
  ASSERT_TRUE(peers.Admit(number, number, &is_new).ok());
  Child child;
  ASSERT_EQ(dup2(child.connection(), number), number);
  auto admitted = peers.Admit(number, number, &is_new);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ((*admitted)->pid, child.pid());
  EXPECT_EQ(peers.Find("fd:" + std::to_string(number)), *admitted);
  child.Kill();
  child.Reap();
}

TEST(Peer, TellsOfTheDeathOfItsProcess) {
  PeerTable peers;
  Child child;
  bool is_new = false;
  auto admitted = peers.Admit(child.connection(), child.connection(), &is_new);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ((*admitted)->pid, child.pid());
  EXPECT_TRUE((*admitted)->alive());
  child.Kill();
  pollfd dead{.fd = (*admitted)->pidfd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&dead, 1, 20'000), 1);
  EXPECT_FALSE((*admitted)->alive());
  child.Reap();
}

TEST(PeerTable, RefusesAConnectionWhoseProcessIsDead) {
  PeerTable peers;
  Child child;
  child.Kill();
  bool is_new = false;
  auto admitted = peers.Admit(child.connection(), child.connection(), &is_new);
  EXPECT_EQ(admitted.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(peers.size(), 0u);
  child.Reap();
}

}  // namespace
}  // namespace carillon::gpud
