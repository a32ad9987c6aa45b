#include "mesh/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>

namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;
using testing::HasSubstr;

std::string Encoded(const Frame& frame) {
  std::string bytes;
  AppendFrame(frame, &bytes);
  return bytes;
}

// Frames that own what their views show.
struct Owned {
  std::deque<std::string> texts;
  std::vector<Frame> frames;
};

std::string AnyText(size_t limit) {
  const auto size = *rc::gen::inRange<size_t>(0, limit + 1);
  return *rc::gen::container<std::string>(size, rc::gen::inRange(' ', '~'));
}
std::string_view AnyBytes(Owned& owned) {
  owned.texts.push_back(*rc::gen::arbitrary<std::string>());
  return owned.texts.back();
}
uint64_t AnyNumber() { return *rc::gen::arbitrary<uint64_t>(); }

Frame AnyFrame(Owned& owned) {
  const RingId ring(AnyNumber());
  const Sequence number(
      *rc::gen::inRange<uint64_t>(1, std::numeric_limits<uint64_t>::max() - 9));
  switch (*rc::gen::inRange(0, 10)) {
    case 0:
      return Hello{AnyText(kMaxNameBytes), AnyText(kMaxNameBytes),
                   AnyText(kMaxNameBytes), AnyText(kMaxNameBytes),
                   AnyNumber() | 1,        AnyNumber()};
    case 1:
      return Refusal{static_cast<RefusalCode>(*rc::gen::inRange(1, 5)),
                     AnyText(kMaxReasonBytes)};
    case 2:
      return Ring{
          ring,
          number,
          {1u << *rc::gen::inRange(0, 17),
           *rc::gen::inRange<uint32_t>(0, kMaxEventBytes + 1),
           *rc::gen::inRange<uint32_t>(0, kMaxEventBytes + 1), AnyText(100)}};
    case 3:
      return Close{ring, AnyText(kMaxReasonBytes), *rc::gen::arbitrary<bool>()};
    case 4: {
      Events events{ring, number, Sequence(AnyNumber()), {}};
      const int count = *rc::gen::inRange(1, 6);
      for (int i = 0; i < count; ++i) events.items.push_back(AnyBytes(owned));
      return events;
    }
    case 5: {
      Done done{ring, number, {}};
      const int count = *rc::gen::inRange(1, 6);
      for (int i = 0; i < count; ++i) {
        done.items.push_back({static_cast<EventState>(*rc::gen::inRange(1, 4)),
                              *rc::gen::arbitrary<uint32_t>(),
                              AnyBytes(owned)});
      }
      return done;
    }
    case 6: {
      const std::string_view bytes = AnyBytes(owned);
      return Data{ring, number, bytes.empty() ? "part" : bytes};
    }
    case 7:
      return Named{};
    case 8: {
      const std::string_view bytes = AnyBytes(owned);
      return Meet{std::string(*rc::gen::element<size_t>(0, kTicketBytes), 'T'),
                  bytes.empty() ? "where" : std::string(bytes)};
    }
    default:
      return Ping{AnyNumber(), AnyNumber(), AnyNumber()};
  }
}

RC_GTEST_PROP(FrameTest, WhateverIsSaidIsHeardInAnyPieces, ()) {
  Owned owned;
  std::string stream;
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    owned.frames.push_back(AnyFrame(owned));
    AppendFrame(owned.frames.back(), &stream);
  }
  FrameDecoder decoder;
  size_t heard = 0;
  for (size_t at = 0; at < stream.size();) {
    const size_t piece =
        std::min(*rc::gen::inRange<size_t>(1, 200), stream.size() - at);
    decoder.Append(std::string_view(stream).substr(at, piece));
    at += piece;
    for (;;) {
      const auto next = decoder.Next();
      RC_ASSERT(next.ok());
      if (!next->has_value()) break;
      RC_ASSERT(heard < owned.frames.size());
      RC_ASSERT(**next == owned.frames[heard]);
      ++heard;
    }
  }
  RC_ASSERT(heard == owned.frames.size());
  RC_ASSERT(decoder.kept_bytes() == 0u);
}

TEST(FrameTest, TheLargestFramesFit) {
  const std::string large(kMaxItemBytes, 'x');
  const std::string output(kMaxItemBytes, 'y');
  std::string stream =
      Encoded(Events{RingId(1), Sequence(1), Sequence(0), {large}});
  EXPECT_EQ(stream.size() - kHeaderBytes, EventsBytes(1, large.size()));
  const std::string done =
      Encoded(Done{RingId(1), Sequence(1), {{EventState::kDone, 0, output}}});
  EXPECT_EQ(done.size() - kHeaderBytes, DoneBytes(1, output.size()));
  EXPECT_LE(std::max(stream.size(), done.size()),
            kMaxPayloadBytes + kHeaderBytes);
  FrameDecoder decoder;
  decoder.Append(stream + done);
  auto next = decoder.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::get<Events>(**next).items[0], large);
  next = decoder.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::get<Done>(**next).items[0].output, output);
}

TEST(FrameTest, TextThatNoFrameMayHaveIsCleanedBeforeItIsSent) {
  FrameDecoder decoder;
  decoder.Append(
      Encoded(Refusal{RefusalCode::kOther, std::string(9'999, '\x1b')}));
  decoder.Append(Encoded(Hello{.host = "a\nb" + std::string(999, 'c')}));
  auto next = decoder.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::get<Refusal>(**next).why, std::string(kMaxReasonBytes, '?'));
  next = decoder.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::get<Hello>(**next).host.substr(0, 5), "a?bcc");
}

// What is wrong with one frame, after `change`.
template <class Change>
std::string Complaint(const Frame& frame, Change change) {
  std::string bytes = Encoded(frame);
  change(bytes);
  FrameDecoder decoder;
  decoder.Append(bytes);
  const auto next = decoder.Next();
  if (next.ok()) return next->has_value() ? "accepted" : "not whole";
  EXPECT_EQ(next.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder.Next().status(), next.status()) << "it is not final";
  return std::string(next.status().message());
}
auto Put(size_t at, uint32_t value) {
  return [=](std::string& bytes) {
    std::memcpy(bytes.data() + kHeaderBytes + at, &value, sizeof(value));
  };
}
// The payload's last bytes go, or others come.
auto Resize(int by) {
  return [=](std::string& bytes) {
    bytes.resize(bytes.size() + static_cast<size_t>(by));
    const auto size = static_cast<uint32_t>(bytes.size() - kHeaderBytes);
    std::memcpy(bytes.data(), &size, sizeof(size));
  };
}

TEST(FrameTest, EachBrokenRuleHasItsSentence) {
  const Hello hello{"lab", "a", "1", "c", 7};
  const Events events{RingId(1), Sequence(1), Sequence(0), {"abc", "de"}};
  const Done done{RingId(1), Sequence(1), {{EventState::kDone, 0, "abc"}}};
  const Ring ring{RingId(1), Sequence(0), {8, 64, 64}};
  EXPECT_EQ(Complaint(hello, Put(0, 1)),
            "frame HELLO has the magic number 0x1, not 0x4b4e4c43");
  EXPECT_EQ(Complaint(hello, Put(4, 5)),
            "the other end speaks protocol 5 of links, this one 4: install "
            "the same Carillon on both hosts");
  EXPECT_EQ(Complaint(hello, Put(24, 129)),
            "frame HELLO has a text of 129 bytes: at most 128");
  EXPECT_EQ(Complaint(hello, Put(24, 100)),
            "frame HELLO is too short: 94 bytes are missing");
  EXPECT_EQ(Complaint(events, Put(28, 3)),
            "frame EVENTS has 0x3 where 0 must be");
  EXPECT_EQ(Complaint(Hello{"", "", "", "", 0}, Put(0, 0x4b4e4c43)),
            "frame HELLO has incarnation 0");
  EXPECT_EQ(Complaint(hello, [](std::string& b) { b[kHeaderBytes + 33] = 27; }),
            "frame HELLO has a text with byte 0x1b in it");
  EXPECT_EQ(Complaint(hello, Resize(2)), "frame HELLO is too long by 2 bytes");
  EXPECT_EQ(Complaint(Refusal{}, Put(0, 5)),
            "frame REFUSAL has the unknown code 5");
  EXPECT_THAT(Complaint(ring, Put(16, 3)), HasSubstr("3"));
  EXPECT_THAT(Complaint(ring, Put(16, 1 << 17)), HasSubstr("131072"));
  EXPECT_EQ(Complaint(ring, Put(20, 20'000'000)),
            "an event or completion of 20000000 bytes: a link carries at most "
            "16777216");
  EXPECT_EQ(Complaint(ring, Resize(kMaxPurposeBytes + 1)),
            "a ring whose purpose takes 16385 bytes: at most 16384");
  EXPECT_EQ(Complaint(ring, Resize(-8)),
            "frame RING is too short: 8 bytes are missing");
  EXPECT_EQ(Complaint(Close{}, Resize(-8)),
            "frame CLOSE is too short: 8 bytes are missing");
  EXPECT_EQ(Complaint(events, Put(24, 0)),
            "frame EVENTS has 0 items: 1 to 256");
  EXPECT_EQ(Complaint(events, Put(24, 257)),
            "frame EVENTS has 257 items: 1 to 256");
  EXPECT_EQ(Complaint(events, Put(32, 99)),
            "frame EVENTS is too short: 94 bytes are missing");
  EXPECT_EQ(Complaint(events, Put(32, 2)),
            "frame EVENTS is too long by 1 bytes");
  EXPECT_EQ(Complaint(events, Put(8, 0)), "frame EVENTS begins with number 0");
  EXPECT_EQ(Complaint(Events{RingId(1), Sequence(~0ull), Sequence(0), {"", ""}},
                      Put(24, 2)),
            "frame EVENTS begins with number 18446744073709551615");
  EXPECT_EQ(Complaint(done, Put(24, 0)),
            "frame DONE has an event in the unknown state 0");
  EXPECT_EQ(Complaint(done, Put(24, 4)),
            "frame DONE has an event in the unknown state 4");
  EXPECT_EQ(Complaint(done, Put(32, 4)),
            "frame DONE is too short: 1 bytes are missing");
  const Data data{RingId(1), Sequence(1), "abc"};
  EXPECT_EQ(Complaint(data, Resize(-3)), "frame DATA has no bytes");
  EXPECT_EQ(Complaint(data, Resize(-4)),
            "frame DATA is too short: 1 bytes are missing");
  EXPECT_EQ(Complaint(data, Put(8, 0)), "frame DATA begins with number 0");
  const Meet meet{"", "w"};
  EXPECT_EQ(Complaint(meet, Put(0, 7)),
            "frame MEET has a ticket of 7 bytes: 0 or 32");
  EXPECT_EQ(Complaint(meet, Put(0, 32)),
            "frame MEET is too short: 31 bytes are missing");
  EXPECT_EQ(Complaint(meet, Resize(-1)),
            "frame MEET has an address of 0 bytes: 1 to 8192");
  EXPECT_EQ(Complaint(meet, Resize(kMaxUcxAddressBytes)),
            "frame MEET has an address of 8193 bytes: 1 to 8192");
  EXPECT_EQ(Complaint(Ping{}, Resize(1)), "frame PING is too long by 1 bytes");
  EXPECT_EQ(Complaint(Ping{}, [](std::string& b) { b[4] = 11; }),
            "a frame has the unknown type 11");
  EXPECT_EQ(Complaint(Ping{}, [](std::string& b) { b[4] = 9; }),
            "frame NAMED is too long by 24 bytes");
  EXPECT_EQ(Complaint(Ping{}, [](std::string& b) { b[4] = 0; }),
            "a frame has the unknown type 0");
  EXPECT_EQ(Complaint(Ping{}, [](std::string& b) { b[7] = 1; }),
            "a frame's header has something where 0 must be");
}

TEST(FrameTest, AFrameThatIsTooLargeIsRefusedBeforeItIsThere) {
  FrameDecoder decoder;
  decoder.Append("GET / HTTP/1.1\r\n");
  EXPECT_EQ(decoder.Next().status().message(),
            "a frame says that it has 542393671 bytes: at most 65536");
  const size_t kept = decoder.kept_bytes();
  decoder.Append(std::string(1 << 20, 'x'));
  EXPECT_EQ(decoder.kept_bytes(), kept);
}

}  // namespace
}  // namespace carillon::mesh
