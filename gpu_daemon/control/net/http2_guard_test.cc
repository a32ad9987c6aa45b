#include "gpu_daemon/control/net/http2_guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace carillon::gpud {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kSettings = 4;

Bytes Frame(uint8_t type, uint8_t flags, uint8_t stream, size_t length = 0) {
  Bytes frame{0,
              static_cast<uint8_t>(length >> 8),
              static_cast<uint8_t>(length),
              type,
              flags,
              0,
              0,
              0,
              stream};
  // What looks like frames in a payload is none.
  frame.resize(frame.size() + length, kHeaders);
  return frame;
}

Bytes operator+(Bytes all, const Bytes& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Bytes Preface() { return Bytes(24, 'P') + Frame(kSettings, 0, 0, 6); }
Bytes Calls(uint32_t count) {
  Bytes all;
  for (uint32_t i = 0; i < count; ++i) {
    all = all + Frame(kHeaders, 4, 1, 10) + Frame(kData, 1, 1, 300);
  }
  return all;
}
const Bytes kAck = Frame(kSettings, 1, 0);

// In pieces of every size, frames are the same.
bool Passes(const Bytes& bytes, bool sent = true) {
  bool all = true;
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    Http2Frames frames;
    bool passes = true;
    for (size_t at = 0; at < bytes.size() && passes; at += piece) {
      passes = frames.Read(
          std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)),
          sent);
    }
    all &= passes;
  }
  return all;
}

TEST(Http2FramesTest, AClientThatAcknowledgesMayBeginAnyNumberOfCalls) {
  EXPECT_TRUE(Passes(Preface() + Calls(64)));
  EXPECT_TRUE(Passes(Preface() + Calls(64) + kAck + Calls(1000)));
}

TEST(Http2FramesTest, AClientThatDoesNotAcknowledgeBeginsNo65thCall) {
  EXPECT_FALSE(Passes(Preface() + Calls(65)));
}

TEST(Http2FramesTest, WhatGrpcTakesForNoAcknowledgementIsNone) {
  for (const Bytes& other : {Frame(kSettings, 1, 0, 6), Frame(kSettings, 3, 0),
                             Frame(kSettings, 1, 1), Frame(kData, 1, 0)}) {
    EXPECT_FALSE(Passes(Preface() + other + Calls(65)));
  }
}

TEST(Http2FramesTest, NobodyAcknowledgesWhatWasNotSent) {
  EXPECT_FALSE(Passes(Preface() + kAck, false));
}

class Http2GuardTest : public testing::Test {
 protected:
  Http2GuardTest() { Connect(512 << 10); }

  void Connect(int buffer_bytes) {
    auto outside = *Http2Guard::MakePair();
    auto inside = *Http2Guard::MakePair();
    client_ = std::move(outside.first);
    grpc_ = std::move(inside.first);
    for (const UniqueFd* end : {&outside.second, &inside.second}) {
      EXPECT_EQ(setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes,
                           sizeof(buffer_bytes)),
                0);
    }
    EXPECT_TRUE(guard_
                    ->Carry(std::move(outside.second), std::move(inside.second),
                            "a test")
                    .ok());
  }

  // Writes what it can.
  static size_t Write(const UniqueFd& end, const Bytes& bytes) {
    const ssize_t sent =
        send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  // Reads `count` bytes, or less if the connection ends before.
  static Bytes Read(const UniqueFd& end, size_t count) {
    Bytes bytes;
    pollfd look{.fd = end.get(), .events = POLLIN, .revents = 0};
    while (bytes.size() < count && poll(&look, 1, 20'000) == 1) {
      Bytes some(count - bytes.size());
      const ssize_t got = recv(end.get(), some.data(), some.size(), 0);
      if (got <= 0) break;
      some.resize(static_cast<size_t>(got));
      bytes = bytes + some;
    }
    return bytes;
  }
  static bool Ended(const UniqueFd& end) {
    pollfd look{.fd = end.get(), .events = POLLIN, .revents = 0};
    uint8_t byte;
    return poll(&look, 1, 20'000) == 1 && recv(end.get(), &byte, 1, 0) <= 0;
  }

  std::unique_ptr<Http2Guard> guard_ = *Http2Guard::Start();
  UniqueFd client_;
  UniqueFd grpc_;
};

TEST_F(Http2GuardTest, CarriesEveryByteBothWaysWhoeverIsSlow) {
  Connect(4 << 10);  // less than the guard reads at once
  Bytes there = Preface();
  for (size_t i = there.size(); i < 3'000'000; ++i) {
    there.push_back(static_cast<uint8_t>(i * 7 >> 8));
  }
  there[24 + 9 + 6] = 0xff;  // a frame of 16 MB: no payload is looked at
  there[24 + 9 + 6 + 3] = kData;
  const Bytes back(there.rbegin(), there.rend());
  Bytes got_there;
  Bytes got_back;
  size_t sent_there = 0;
  size_t sent_back = 0;
  while (got_there.size() < there.size() || got_back.size() < back.size()) {
    sent_there += Write(
        client_,
        Bytes(there.begin() + static_cast<ptrdiff_t>(sent_there), there.end()));
    sent_back += Write(
        grpc_,
        Bytes(back.begin() + static_cast<ptrdiff_t>(sent_back), back.end()));
    const size_t before = got_there.size() + got_back.size();
    got_there =
        got_there +
        Read(grpc_, std::min<size_t>(50'000, sent_there - got_there.size()));
    got_back =
        got_back +
        Read(client_, std::min<size_t>(50'000, sent_back - got_back.size()));
    ASSERT_GT(got_there.size() + got_back.size(), before);
  }
  EXPECT_TRUE(got_there == there);
  EXPECT_TRUE(got_back == back);
}

TEST_F(Http2GuardTest, EndsTheConnectionOfAClientThatBreaksTheRule) {
  Write(client_, Preface() + Calls(65));
  EXPECT_TRUE(Ended(client_));
}

TEST_F(Http2GuardTest, AnEndIsToldToTheOtherSide) {
  client_.reset();
  EXPECT_TRUE(Ended(grpc_));
}

TEST_F(Http2GuardTest, WhatGrpcSaidLastIsDelivered) {
  // More than the guard moves at once, and less than the socket's buffer.
  Write(grpc_, Bytes(150'000, 'x'));
  grpc_.reset();
  guard_.reset();
  EXPECT_EQ(Read(client_, 150'001).size(), 150'000u);
}

TEST_F(Http2GuardTest,
       AStoppedClientDoesNotKeepTheConnectionOfAGrpcThatIsGone) {
  while (Write(grpc_, Bytes(100'000, 'x')) > 0) {
  }
  grpc_.reset();
  // Its own end of the pair is closed: nothing takes what the client says.
  pollfd look{.fd = client_.get(), .events = 0, .revents = 0};
  EXPECT_EQ(poll(&look, 1, 20'000), 1);
}

}  // namespace
}  // namespace carillon::gpud
