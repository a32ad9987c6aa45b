#include "mesh/etcd/etcd.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/temp_directory.h"
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
  grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest*,
                     etcdserverpb::RangeResponse*) override {
    ++asked;
    return away ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away")
                : grpc::Status::OK;
  }
  const std::string& address() const { return address_; }

  std::atomic<int> asked{0};
  std::atomic<bool> away{false};

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

}  // namespace
}  // namespace carillon::mesh
