#include "mesh/etcd/etcd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/temp_directory.h"
#include "base/testing/tcp_relay.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "proto/etcd.grpc.pb.h"

namespace carillon::mesh {
namespace {

// A member that counts who asks it, and answers while it is there.
class Member final : public etcdserverpb::KV::Service {
 public:
  explicit Member(std::string address) : address_(std::move(address)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status Range(grpc::ServerContext* context,
                     const etcdserverpb::RangeRequest*,
                     etcdserverpb::RangeResponse*) override {
    ++asked;
    waits_for = context->deadline() - std::chrono::system_clock::now();
    if (alone) return {grpc::StatusCode::UNKNOWN, "context deadline exceeded"};
    return away ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away")
                : grpc::Status::OK;
  }
  const std::string& address() const { return address_; }

  std::atomic<int> asked{0};
  std::atomic<bool> away{false};
  std::atomic<bool> alone{false};                     // it has no majority
  std::atomic<std::chrono::nanoseconds> waits_for{};  // the last who asked

 private:
  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(EtcdTest, WhoDoesNotAnswerIsNotAskedFirstAgain) {
  auto folder = TempDirectory::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  Member a("unix:" + folder->path() + "/a");
  Member b("unix:" + folder->path() + "/b");
  const auto etcd = Etcd::Make({a.address(), b.address()}, {});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  const auto ask = [&] { return (*etcd)->List("key").status(); };
  a.away = true;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(ask().ok()) << ask();
  EXPECT_EQ(a.asked, 1);
  a.away = false;
  b.away = true;
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ(a.asked, 2);
  a.away = true;
  EXPECT_TRUE(absl::IsUnavailable(ask()));
}

TEST(EtcdTest, WithoutAMajorityItDoesNotAnswerAndSaysWhatItNeeds) {
  auto folder = TempDirectory::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  Member a("unix:" + folder->path() + "/a");
  Member b("unix:" + folder->path() + "/b");
  const auto etcd = Etcd::Make({a.address(), b.address()}, {});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  a.alone = b.away = true;
  const absl::Status status = (*etcd)->List("key").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::EndsWith("(away); most of its members must run"));
}

// Or a host whose etcd has a quorum would lose its lease, which has 5 s.
TEST(EtcdTest, SeveralThatSayNothingTakeNoLongerThanALeaseHas) {
  auto folder = TempDirectory::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::string> addresses;
  for (int i = 0; i < 5; ++i) {
    addresses.push_back(fmt::format("unix:{}/{}", folder->path(), i));
    members.push_back(std::make_unique<Member>(addresses.back()));
    members.back()->away = true;
  }
  const auto etcd = Etcd::Make(addresses, {});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  EXPECT_TRUE(absl::IsUnavailable((*etcd)->List("key").status()));
  std::chrono::nanoseconds all{0};
  for (const auto& member : members) {
    EXPECT_EQ(member->asked, 1);
    all += member->waits_for;
  }
  EXPECT_LT(all, std::chrono::milliseconds(3100));
}

TEST(EtcdTest, AMemberThatComesLaterIsFoundAtTheNextCall) {
  auto folder = TempDirectory::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string address = "unix:" + folder->path() + "/a";
  const auto etcd = Etcd::Make({address}, {});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  const auto ask = [&] { return (*etcd)->List("key").status(); };
  for (int restarts = 0; restarts < 3; ++restarts) {
    EXPECT_TRUE(absl::IsUnavailable(ask()));
    const Member member(address);
    EXPECT_TRUE(ask().ok());
  }
}

// As a host that was cut off.
TEST(EtcdTest, AMemberThatSaysNothingIsDialledAnew) {
  std::string address;
  const UniqueFd listener = ListenOnLoopback(&address);
  const auto etcd = Etcd::Make({"http://" + address}, {});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  std::vector<UniqueFd> dialled;
  int waited = 0;
  while (dialled.size() < 2 && waited < 5) {
    const absl::Status status = (*etcd)->List("key").status();
    ASSERT_TRUE(absl::IsUnavailable(status)) << status;
    waited += absl::StrContains(status.message(), "Deadline Exceeded") ? 1 : 0;
    pollfd ready{listener.get(), POLLIN, 0};
    while (poll(&ready, 1, /*timeout=*/20) == 1) {
      dialled.emplace_back(accept(listener.get(), nullptr, nullptr));
    }
  }
  EXPECT_EQ(dialled.size(), 2u);
}

}  // namespace
}  // namespace carillon::mesh
