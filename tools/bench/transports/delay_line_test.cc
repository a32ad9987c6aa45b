#include "tools/bench/transports/delay_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/clock.h"
#include "tools/bench/transports/loopback.h"

namespace carillon::bench {
namespace {

constexpr std::chrono::milliseconds kEachWay{20};
constexpr Nanoseconds kEachWayNs = 20'000'000;

class DelayLineTest : public ::testing::Test {
 protected:
  DelayLineTest() {
    near_ = *DialLoopback(line_->port());
    far_ = UniqueFd(accept(listener_.fd.get(), nullptr, nullptr));
  }

  static void Send(const UniqueFd& to, std::string_view bytes) {
    ASSERT_EQ(send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Receive(const UniqueFd& from, size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = recv(from.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

  const Listener listener_ = *ListenOnLoopback();
  std::unique_ptr<DelayLine> line_ =
      *DelayLine::Start(listener_.port, kEachWay);
  UniqueFd near_;
  UniqueFd far_;
};

TEST_F(DelayLineTest, EachWayTakesItsTime) {
  const Nanoseconds began = NowNs();
  Send(near_, "ping");
  EXPECT_EQ(Receive(far_, 4), "ping");
  EXPECT_GE(NowNs() - began, kEachWayNs);
  Send(far_, "pong");
  EXPECT_EQ(Receive(near_, 4), "pong");
  EXPECT_GE(NowNs() - began, 2 * kEachWayNs);
}

TEST_F(DelayLineTest, BytesKeepTheirOrder) {
  std::string sent;
  for (int i = 0; i < 100; ++i) {
    const std::string some(i + 1, static_cast<char>('a' + i % 26));
    Send(near_, some);
    sent += some;
  }
  EXPECT_EQ(Receive(far_, sent.size()), sent);
}

TEST_F(DelayLineTest, AnEndIsCarriedToo) {
  near_.reset();
  EXPECT_EQ(Receive(far_, 1), "");
  // And the next connection comes.
  near_ = *DialLoopback(line_->port());
  far_ = UniqueFd(accept(listener_.fd.get(), nullptr, nullptr));
  Send(near_, "x");
  EXPECT_EQ(Receive(far_, 1), "x");
}

TEST_F(DelayLineTest, EndsAmidAConnection) {
  Send(near_, "x");
  line_.reset();
  EXPECT_EQ(Receive(near_, 1), "");
}

}  // namespace
}  // namespace carillon::bench
