#include "mesh/ucx_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "mesh/tls_stream.h"

namespace carillon::mesh {
namespace {

using testing::HasSubstr;

// Two ends in one thread, each with its own context, and TLS between them.
class UcxStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    const TestCa ca(testing::TempDir());
    const auto tls = TlsContext::Create(ca.IssueGpud());
    ASSERT_TRUE(tls.ok()) << tls.status();
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    near_tls_ =
        std::make_unique<TlsStream>(*tls, TlsSide::kClient, UniqueFd(fds[0]));
    far_tls_ =
        std::make_unique<TlsStream>(*tls, TlsSide::kServer, UniqueFd(fds[1]));
    ASSERT_TRUE(Eventually([&] {
      const bool near = near_tls_->Handshake().value_or(false);
      return far_tls_->Handshake().value_or(false) && near;
    }));
    far_ = Make(UcxSide::kFar);
    near_ = Make(UcxSide::kNear);
    ASSERT_TRUE(far_ && near_);
    ASSERT_TRUE(far_->Connect(ticket_, near_->address(), far_tls_.get()).ok());
  }
  static std::unique_ptr<UcxStream> Make(UcxSide side) {
    auto context = UcxContext::Create();
    EXPECT_TRUE(context.ok()) << context.status();
    if (!context.ok()) return nullptr;
    auto stream = UcxStream::Create(*context, side);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? *std::move(stream) : nullptr;
  }
  void ConnectNear(UcxStream& near, const std::string& ticket) {
    ASSERT_TRUE(near.Connect(ticket, far_->address(), near_tls_.get()).ok());
  }
  // What has come at the far end.
  std::string Heard() {
    const auto got = far_->Read(buffer_);
    if (!got.ok()) ADD_FAILURE() << got.status();
    return {buffer_.data(), got.value_or(0)};
  }
  // Moves the ends until `state` holds.
  bool Move(std::vector<UcxStream*> others, std::string* heard,
            const std::function<bool()>& state) {
    return Eventually([&] {
      std::vector<char> thrown(1);
      for (UcxStream* const other : others) (void)other->Read(thrown);
      *heard += Heard();
      return state();
    });
  }

  const std::string ticket_ = NewTicket();
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
  std::unique_ptr<TlsStream> near_tls_;
  std::unique_ptr<TlsStream> far_tls_;
  std::unique_ptr<UcxStream> far_;
  std::unique_ptr<UcxStream> near_;
};

TEST_F(UcxStreamTest, BytesComeWholeAndInOrder) {
  ConnectNear(*near_, ticket_);
  std::string all;
  for (int i = 0; all.size() < 3'000'000; ++i) all += std::to_string(i);
  std::string heard;
  size_t sent = 0;
  EXPECT_TRUE(Move({near_.get()}, &heard, [&] {
    for (size_t put = 1; put > 0 && sent < all.size(); sent += put) {
      put =
          near_->Write(std::string_view(all).substr(sent, 100'000)).value_or(0);
    }
    return heard.size() >= all.size();
  }));
  EXPECT_TRUE(heard == all);
  EXPECT_EQ(far_->refused(), 0u);
}

TEST_F(UcxStreamTest, AnotherTicketIsRefused) {
  ConnectNear(*near_, NewTicket());
  ASSERT_TRUE(near_->Write("forged").ok());
  std::string heard;
  EXPECT_TRUE(
      Move({near_.get()}, &heard, [&] { return far_->refused() == 1; }));
  EXPECT_EQ(heard, "");
}

TEST_F(UcxStreamTest, ATicketIsGoodForOneSender) {
  ConnectNear(*near_, ticket_);
  ASSERT_TRUE(near_->Write("first").ok());
  std::string heard;
  ASSERT_TRUE(Move({near_.get()}, &heard, [&] { return heard == "first"; }));
  const auto second = Make(UcxSide::kNear);
  ConnectNear(*second, ticket_);
  ASSERT_TRUE(second->Write("forged").ok());
  ASSERT_TRUE(Move({near_.get(), second.get()}, &heard,
                   [&] { return far_->refused() == 1; }));
  // The one that had it goes on.
  ASSERT_TRUE(near_->Write(", second").ok());
  EXPECT_TRUE(Move({near_.get(), second.get()}, &heard, [&] {
    return heard == "first, second";
  })) << heard;
}

TEST_F(UcxStreamTest, WithoutATicketThereIsNoConnection) {
  EXPECT_FALSE(near_->Connect("", far_->address(), near_tls_.get()).ok());
}

TEST_F(UcxStreamTest, TheEndOfTlsIsTheConnections) {
  ConnectNear(*near_, ticket_);
  ASSERT_TRUE(near_->Write("last").ok());
  std::string heard;
  ASSERT_TRUE(Move({near_.get()}, &heard, [&] { return heard == "last"; }));
  near_tls_->EndWriting();
  EXPECT_TRUE(Eventually([&] { return !far_->Read(buffer_).ok(); }));
}

TEST(UcxContextTest, WithoutTheLibraryItIsNamed) {
  const auto context = UcxContext::Create("libnobodys.so.0");
  EXPECT_EQ(context.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(context.status().message()),
              HasSubstr("install libucx0"));
  // Another library of that name.
  EXPECT_THAT(std::string(UcxContext::Create("libz.so.1").status().message()),
              HasSubstr("libz.so.1 has no ucp_config_read"));
}

TEST(UcxContextTest, AProgramsSignalsStayItsOwn) {
  struct sigaction mine {};
  mine.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGBUS, &mine, nullptr), 0);
  ASSERT_TRUE(UcxContext::Create().ok());
  struct sigaction now {};
  ASSERT_EQ(sigaction(SIGBUS, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, mine.sa_handler);
}

}  // namespace
}  // namespace carillon::mesh
