// What one end does with whatever the other one says: each broken rule has its
// sentence, and ends the link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "mesh/far_end.h"
#include "mesh/near_end.h"

namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Nanoseconds kMs = 1'000'000;
constexpr RingId kRing(5);
const RingLimits kLimits{4, 32, 32};

LinkOptions NearOptions() {
  return {.self = {"lab", "a", "1", "kernels", 3}, .peer = "b", .times = {}};
}
LinkOptions FarOptions() {
  return {.self = {"lab", "b", "1", "kernels", 7}, .peer = "a", .times = {}};
}

std::string Encoded(const Frame& frame) {
  std::string bytes;
  AppendFrame(frame, &bytes);
  return bytes;
}

// All that an end has to say, as frames that own their bytes.
template <class End>
std::vector<std::string> Said(End& end, Nanoseconds now) {
  std::vector<std::string> said;
  while (const auto out = end.Poll(now)) {
    EXPECT_TRUE(end.IsCurrent(out->epoch));
    said.push_back(out->bytes);
  }
  return said;
}
std::string NameOfBytes(const std::string& bytes) {
  FrameDecoder decoder;
  decoder.Append(bytes);
  const auto frame = decoder.Next();
  return frame.ok() && frame->has_value() ? std::string(NameOf(**frame)) : "?";
}
std::vector<std::string> Names(const std::vector<std::string>& said) {
  std::vector<std::string> names;
  for (const std::string& bytes : said) names.push_back(NameOfBytes(bytes));
  return names;
}

class NearEndTest : public testing::Test, public NearHost {
 protected:
  NearEndTest() : near_(NearOptions(), this, 0) {
    EXPECT_TRUE(near_.AddRing(kRing, kLimits, Sequence(2), Sequence(4)).ok());
  }
  void ReadEvent(RingId, Sequence number, std::string* to) override {
    *to += event_.empty() ? fmt::format("event {}", number.value()) : event_;
  }
  bool TakeEnd(RingId, Sequence number, const End& end) override {
    ends_.push_back(
        fmt::format("{} {} {}", number.value(), end.status, end.output));
    return true;
  }
  void LoseRing(RingId, const std::string& why, bool passing) override {
    refused_.push_back(passing ? why + " (passing)" : why);
  }
  void LoseLink(const std::string& why) override { lost_.push_back(why); }

  absl::Status Hear(const Frame& frame) {
    return near_.Receive(epoch_, Encoded(frame), now_);
  }
  std::string Complaint(const Frame& frame) {
    return std::string(Hear(frame).message());
  }
  void Open() {
    const auto epoch = near_.Open(now_);
    ASSERT_TRUE(epoch.ok()) << epoch.status();
    epoch_ = *epoch;
  }
  // Up, and events 3 and 4 are sent.
  void Connect() {
    Open();
    ASSERT_TRUE(Hear(FarOptions().self).ok());
    Said(near_, now_);
    ASSERT_TRUE(Hear(Ring{kRing, Sequence(2), kLimits}).ok());
    ASSERT_THAT(Names(Said(near_, now_)), ElementsAre("EVENTS"));
  }
  mesh::Done Ends(uint64_t first, std::string_view output = "out") {
    return {kRing, Sequence(first), {{EventState::kDone, 9, output}}};
  }
  void ExpectEndsLink(const Frame& frame, const std::string& complaint) {
    near_ = NearEnd(NearOptions(), this, 0);
    ASSERT_TRUE(near_.AddRing(kRing, kLimits, Sequence(2), Sequence(4)).ok());
    Connect();
    EXPECT_EQ(Complaint(frame), complaint);
    EXPECT_TRUE(near_.is_lost());
    EXPECT_THAT(lost_, ElementsAre(complaint));
    EXPECT_EQ(near_.Open(0).status().message(), "the link is lost");
    EXPECT_THAT(Said(near_, 0), IsEmpty());
    lost_.clear();
  }

  std::string event_;
  Nanoseconds now_ = 0;
  NearEnd near_;
  Epoch epoch_;
  std::vector<std::string> ends_;
  std::vector<std::string> refused_;
  std::vector<std::string> lost_;
};

TEST_F(NearEndTest, NoEventIsSentBeforeTheFarEndHasSaidWhatItHas) {
  Open();
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("HELLO", "RING", "NAMED"));
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  EXPECT_TRUE(near_.is_up());
  EXPECT_THAT(Said(near_, 0), IsEmpty());
  // It has event 3 already.
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(3), kLimits}).ok());
  EXPECT_THAT(Said(near_, 0),
              ElementsAre(Encoded(
                  Events{kRing, Sequence(4), Sequence(2), {"event 4"}})));
}

TEST_F(NearEndTest, WhatIsSentAgainIsCounted) {
  EXPECT_EQ(near_.in_flight(), 2u);
  EXPECT_EQ(near_.replayed(), 0u) << "nobody has taken them yet";
  ASSERT_NO_FATAL_FAILURE(Connect());
  EXPECT_EQ(near_.replayed(), 2u) << "they were another ring's before";
  near_.Rang(kRing, Sequence(5));
  EXPECT_EQ(near_.in_flight(), 3u);
  EXPECT_EQ(near_.replayed(), 2u);
  // Of the two that were sent, the far end has one.
  near_.Cut(epoch_);
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  Said(near_, now_);
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(3), kLimits}).ok());
  EXPECT_EQ(near_.replayed(), 3u);
}

TEST_F(NearEndTest, EachEndIsTakenOnce) {
  Connect();
  EXPECT_TRUE(Hear(Ends(3)).ok());
  EXPECT_TRUE(Hear(Ends(4)).ok());
  EXPECT_THAT(ends_, ElementsAre("3 9 out", "4 9 out"));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(NearEndTest, WhatBreaksARuleEndsTheLink) {
  ExpectEndsLink(Ends(4),
                 "ring 5: the far end completes event 4 after 2, with 4 sent");
  ExpectEndsLink(Ends(2),
                 "ring 5: the far end completes event 2 after 2, with 4 sent");
  ExpectEndsLink(mesh::Done{kRing,
                            Sequence(3),
                            {{EventState::kDone, 0, ""},
                             {EventState::kDone, 0, ""},
                             {EventState::kDone, 0, ""}}},
                 "ring 5: the far end completes event 5 after 4, with 4 sent");
  ExpectEndsLink(Ends(3, "more bytes than the ring's limit is"),
                 "ring 5: event 3 has an output of 35 bytes: at most 32");
  ExpectEndsLink(
      mesh::Done{RingId(6), Sequence(1), {{EventState::kDone, 0, ""}}},
      "the far end completes events of ring 6, which is not there");
  ExpectEndsLink(Ring{kRing, Sequence(3), kLimits},
                 "the far end answers for ring 5 unasked");
  ExpectEndsLink(Close{kRing}, "the far end closes ring 5 unasked");
  ExpectEndsLink(Close{RingId(6), "no such ring"},
                 "the far end closes ring 6 unasked");
  ExpectEndsLink(Events{kRing, Sequence(1), Sequence(0), {"x"}},
                 "the far end sends EVENTS unasked");
  ExpectEndsLink(FarOptions().self, "the far end sends HELLO after its HELLO");
  ExpectEndsLink(Ping{1, 5'000'000'000, 0},
                 "the far end answers no PING of ours");
}

TEST_F(NearEndTest, AnAnswerThatCannotBeEndsTheLink) {
  for (const auto& [number, limits, complaint] :
       {std::tuple(1u, kLimits,
                   "ring 5: the far end says that it has accepted 1, of 4 rung "
                   "and 2 completed"),
        std::tuple(5u, kLimits,
                   "ring 5: the far end says that it has accepted 5, of 4 rung "
                   "and 2 completed"),
        std::tuple(3u, RingLimits{8, 32, 32},
                   "ring 5: the far end answers for one of other limits")}) {
    near_ = NearEnd(NearOptions(), this, 0);
    ASSERT_TRUE(near_.AddRing(kRing, kLimits, Sequence(2), Sequence(4)).ok());
    Open();
    Said(near_, 0);
    ASSERT_TRUE(Hear(FarOptions().self).ok());
    EXPECT_EQ(Complaint(Ring{kRing, Sequence(number), limits}), complaint);
    EXPECT_TRUE(near_.is_lost());
  }
}

TEST_F(NearEndTest, WhoIsNotExpectedIsNamedAndTheLeaseGoesOn) {
  const auto differs = [](auto change) {
    Hello hello = FarOptions().self;
    change(hello);
    return hello;
  };
  for (const auto& [hello, complaint] :
       {std::pair(differs([](Hello& h) { h.testbed = "home"; }),
                  "the other end is of testbed 'home', and 'lab' is expected: "
                  "let each testbed have addresses of its own"),
        std::pair(differs([](Hello& h) { h.host = "c"; }),
                  "the other end is of host 'c', and 'b' is expected: is "
                  "the address another host's, or the port another link's?"),
        std::pair(differs([](Hello& h) { h.build = "2"; }),
                  "the other end is of build '2', and '1' is expected: "
                  "install the same Carillon on both hosts"),
        std::pair(differs([](Hello& h) { h.catalogue = "others"; }),
                  "the other end is of catalogue of kernels 'others', and "
                  "'kernels' is expected: install the same Carillon on both "
                  "hosts")}) {
    Open();
    EXPECT_EQ(Complaint(hello), complaint);
    near_.Cut(epoch_);
  }
  Open();
  EXPECT_EQ(Complaint(Ping{}), "the far end sends PING before its HELLO");
  near_.Cut(epoch_);
  Open();
  EXPECT_EQ(Complaint(Refusal{RefusalCode::kOther, "another build"}),
            "host b refuses the link: another build");
  near_.Cut(epoch_);
  EXPECT_FALSE(near_.is_lost());
  Connect();
  near_.Cut(epoch_);
  Open();
  EXPECT_EQ(Complaint(differs([](Hello& h) { h.incarnation = 6; })),
            "host b of incarnation 6 is there, and one of 7 was: is an old one "
            "still running?");
  EXPECT_FALSE(near_.is_lost());
}

TEST_F(NearEndTest, ARefusalThatCannotChangeEndsTheLink) {
  Open();
  EXPECT_EQ(Hear(Refusal{RefusalCode::kLinkLost, "too late"}).code(),
            absl::StatusCode::kAborted);
  EXPECT_THAT(lost_, ElementsAre("host b refuses the link: too late"));
}

TEST_F(NearEndTest, ALeaseThatIsOverEndsTheLinkOnce) {
  Connect();
  now_ = 1'000 * kMs;
  ASSERT_TRUE(Hear(Ping{}).ok());
  near_.Tick(61'000 * kMs);
  EXPECT_THAT(lost_, IsEmpty());
  near_.Tick(61'000 * kMs + 1);
  near_.Tick(99'000 * kMs);
  EXPECT_THAT(lost_, ElementsAre("host b was not heard of for longer than the "
                                 "lease of 1min"));
  EXPECT_FALSE(near_.is_up());
}

TEST_F(NearEndTest, ALinkThatIsRefusedForTheWholeLeaseSaysWhy) {
  Connect();
  near_.Cut(epoch_);
  Open();
  ASSERT_FALSE(Hear(Refusal{RefusalCode::kOther, "another build"}).ok());
  near_.Cut(epoch_);
  near_.Tick(61'000 * kMs);
  EXPECT_THAT(lost_, ElementsAre("host b was not heard of for longer than the "
                                 "lease of 1min; it refuses the link: another "
                                 "build"));
}

TEST_F(NearEndTest, ARefusalCountsNoMoreOnceTheLinkIsTaken) {
  Open();
  ASSERT_FALSE(Hear(Refusal{RefusalCode::kOther, "another build"}).ok());
  near_.Cut(epoch_);
  Connect();
  near_.Cut(epoch_);
  near_.Tick(61'000 * kMs);
  EXPECT_THAT(lost_, ElementsAre("host b was not heard of for longer than the "
                                 "lease of 1min"));
}

TEST_F(NearEndTest, SilenceIsToldAfterTheTimeoutAndPingsGoOut) {
  Connect();
  EXPECT_THAT(Said(near_, 99 * kMs), IsEmpty());
  EXPECT_THAT(Names(Said(near_, 100 * kMs)), ElementsAre("PING"));
  EXPECT_THAT(Said(near_, 199 * kMs), IsEmpty());
  EXPECT_FALSE(near_.IsSilent(1'000 * kMs));
  EXPECT_TRUE(near_.IsSilent(1'000 * kMs + 1));
  now_ = 1'000 * kMs;
  // It answers the PING of 100 ms, which it has held for 880 ms.
  ASSERT_TRUE(Hear(Ping{77, 100 * kMs, 880 * kMs}).ok());
  EXPECT_EQ(near_.rtt(), 20 * kMs);
  EXPECT_FALSE(near_.IsSilent(2'000 * kMs));
  EXPECT_THAT(Said(near_, 1'100 * kMs),
              ElementsAre(Encoded(Ping{1'100 * kMs, 77, 100 * kMs})));
}

TEST_F(NearEndTest, AFarClockThatRunsFasterIsNoBrokenRule) {
  Connect();
  Said(near_, 100 * kMs);
  now_ = 500 * kMs;
  ASSERT_TRUE(Hear(Ping{1, 100 * kMs, 401 * kMs}).ok());
  EXPECT_FALSE(near_.rtt().has_value());
  ASSERT_TRUE(Hear(Ping{1, 100 * kMs, 390 * kMs}).ok());
  EXPECT_EQ(near_.rtt(), 10 * kMs);
}

TEST_F(NearEndTest, ATimeThatGoesBackEndsNothing) {
  now_ = 200 * kMs;
  Connect();
  ASSERT_THAT(Names(Said(near_, 300 * kMs)), ElementsAre("PING"));
  now_ = 300 * kMs;
  ASSERT_TRUE(Hear(Ping{1, 300 * kMs, 0}).ok());
  for (const Nanoseconds back : {Nanoseconds{1}, 250 * kMs}) {
    now_ = 300 * kMs - back;
    EXPECT_FALSE(near_.IsSilent(now_));
    EXPECT_THAT(Said(near_, now_), IsEmpty());
    near_.Tick(now_);
    // It answers a PING that left later than now.
    ASSERT_TRUE(Hear(Ping{1, 300 * kMs, 0}).ok());
  }
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(NearEndTest, BytesOfAnEarlierConnectionAreDropped) {
  Connect();
  const Epoch old = epoch_;
  near_.Cut(old);
  EXPECT_TRUE(near_.Receive(old, Encoded(Ends(3)), now_).ok());
  Connect();
  near_.Cut(old);
  EXPECT_TRUE(near_.is_up()) << "cut by the news of an earlier connection";
  EXPECT_TRUE(near_.Receive(old, "garbage that is no frame", now_).ok());
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_TRUE(Hear(Ends(3)).ok());
  EXPECT_THAT(ends_, ElementsAre("3 9 out"));
}

TEST_F(NearEndTest, ARemovedRingIsClosedAtTheFarEndAndItsEndsAreDropped) {
  Connect();
  near_.RemoveRing(kRing);
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("CLOSE"));
  EXPECT_TRUE(Hear(Ends(3)).ok());
  EXPECT_EQ(near_.AddRing(kRing, kLimits, Sequence(), Sequence()).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Hear(Close{kRing}).ok());
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_FALSE(Hear(Close{kRing}).ok());
}

TEST_F(NearEndTest, ARingThatIsNotTakenIsGoneAndTheLinkGoesOn) {
  ASSERT_TRUE(near_.AddRing(RingId(6), kLimits, Sequence(), Sequence(1)).ok());
  Open();
  Said(near_, 0);
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  ASSERT_TRUE(Hear(Close{kRing, "no memory"}).ok());
  EXPECT_THAT(refused_, ElementsAre("host b does not take ring 5: no memory"));
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(), kLimits}).ok());
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("EVENTS"));
  EXPECT_THAT(lost_, IsEmpty());
  // Neither is it named again.
  near_.Cut(epoch_);
  Open();
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("HELLO", "RING", "NAMED"));
}

TEST_F(NearEndTest, ARingThatIsGivenUpIsClosedAndMayBeAddedAnew) {
  Connect();
  ASSERT_TRUE(Hear(Ends(3)).ok());
  ASSERT_TRUE(Hear(Close{kRing, "gpud is away", true}).ok());
  EXPECT_THAT(refused_,
              ElementsAre("host b gives up ring 5: gpud is away (passing)"));
  // Until the far end has heard of it, what it had sent counts for nothing.
  EXPECT_TRUE(Hear(Ends(4)).ok());
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_THAT(Said(near_, 0), ElementsAre(Encoded(Close{kRing})));
  ASSERT_TRUE(near_.AddRing(RingId(6), kLimits, Sequence(3), Sequence(4)).ok());
  EXPECT_THAT(Said(near_, 0),
              ElementsAre(Encoded(Ring{RingId(6), Sequence(3), kLimits})));
  EXPECT_TRUE(Hear(Close{kRing}).ok());
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(3), kLimits}).ok());
  EXPECT_THAT(Said(near_, 0),
              ElementsAre(Encoded(
                  Events{RingId(6), Sequence(4), Sequence(3), {"event 4"}})));
}

TEST_F(NearEndTest, ARefusalThatCrossesACloseIsNoAnswerToIt) {
  Open();
  Said(near_, 0);
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  near_.RemoveRing(kRing);
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("CLOSE"));
  ASSERT_TRUE(Hear(Close{kRing, "no memory"}).ok());
  EXPECT_THAT(refused_, IsEmpty());
  ASSERT_TRUE(Hear(Close{kRing}).ok());
  EXPECT_TRUE(near_.AddRing(kRing, kLimits, Sequence(), Sequence()).ok());
}

TEST_F(NearEndTest, WhatNoLinkCarriesIsRefusedAtOnce) {
  EXPECT_EQ(near_.AddRing(RingId(1), {3, 1, 1}, Sequence(), Sequence()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(near_.AddRing(RingId(1), {4, 1 << 25, 1}, Sequence(), Sequence())
                  .message(),
              HasSubstr("33554432 bytes: a link carries at most 16777216"));
  for (uint64_t i = 100; i < 99 + kMaxRings; ++i) {
    ASSERT_TRUE(near_.AddRing(RingId(i), kLimits, Sequence(), Sequence()).ok());
  }
  // Those that are being closed count.
  near_.RemoveRing(RingId(100));
  EXPECT_EQ(near_.AddRing(RingId(1), kLimits, Sequence(), Sequence()).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(NearEndTest, RingsTakeTurnsAndFramesAreBounded) {
  event_ = std::string(40'000, 'x');
  const RingLimits large{1024, 40'000, 0};
  const RingLimits many{1024, 8, 0};
  ASSERT_TRUE(near_.AddRing(RingId(6), large, Sequence(), Sequence(3)).ok());
  ASSERT_TRUE(near_.AddRing(RingId(7), large, Sequence(), Sequence(2)).ok());
  Open();
  Said(near_, 0);
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  for (const RingId ring : {RingId(6), RingId(7)}) {
    ASSERT_TRUE(Hear(Ring{ring, Sequence(0), large}).ok());
  }
  std::vector<uint64_t> rings;
  for (const std::string& bytes : Said(near_, 0)) {
    FrameDecoder decoder;
    decoder.Append(bytes);
    const auto frame = decoder.Next();
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(std::get<Events>(**frame).items.size(), 1u);
    rings.push_back(std::get<Events>(**frame).ring.value());
  }
  EXPECT_THAT(rings, ElementsAre(6, 7, 6, 7, 6));
  event_ = "x";
  ASSERT_TRUE(near_.AddRing(RingId(8), many, Sequence(), Sequence(300)).ok());
  Said(near_, 0);
  ASSERT_TRUE(Hear(Ring{RingId(8), Sequence(0), many}).ok());
  EXPECT_THAT(Names(Said(near_, 0)), ElementsAre("EVENTS", "EVENTS"));
}

TEST_F(NearEndTest, NoConnectionOpensWhileAnEndIsNotStored) {
  class Forgetful : public NearHost {
   public:
    void ReadEvent(RingId, Sequence, std::string* to) override { *to += "x"; }
    bool TakeEnd(RingId, Sequence, const End&) override { return false; }
    void LoseRing(RingId, const std::string&, bool) override {}
    void LoseLink(const std::string&) override {}
  } forgetful;
  near_ = NearEnd(NearOptions(), &forgetful, 0);
  ASSERT_TRUE(near_.AddRing(kRing, kLimits, Sequence(2), Sequence(4)).ok());
  Connect();
  ASSERT_TRUE(Hear(Ends(3)).ok());
  near_.Cut(epoch_);
  EXPECT_EQ(near_.Open(0).status().message(),
            "ring 5: the end of event 3 is not stored yet");
  near_.Stored(kRing, Sequence(3));
  EXPECT_TRUE(near_.Open(0).ok());
}

TEST_F(NearEndTest, WhatIsLargerThanAFrameGoesInParts) {
  event_ = std::string(2 * kMaxItemBytes, 'x') + "end";
  const RingLimits large{4, 200'000, 200'000};
  ASSERT_TRUE(near_.AddRing(RingId(6), large, Sequence(), Sequence(1)).ok());
  Open();
  Said(near_, 0);
  ASSERT_TRUE(Hear(FarOptions().self).ok());
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(), large}).ok());
  const std::string_view all = event_;
  EXPECT_THAT(
      Said(near_, 0),
      ElementsAre(
          Encoded(Data{RingId(6), Sequence(1), all.substr(0, kMaxItemBytes)}),
          Encoded(Data{RingId(6), Sequence(1),
                       all.substr(kMaxItemBytes, kMaxItemBytes)}),
          Encoded(Events{RingId(6), Sequence(1), Sequence(), {"end"}})));
  ASSERT_TRUE(Hear(Data{RingId(6), Sequence(1), "abc"}).ok());
  ASSERT_TRUE(Hear(Data{RingId(6), Sequence(1), "def"}).ok());
  ASSERT_TRUE(
      Hear(
          mesh::Done{RingId(6), Sequence(1), {{EventState::kFailed, 4, "ghi"}}})
          .ok());
  EXPECT_THAT(ends_, ElementsAre("1 4 abcdefghi"));
}

TEST_F(NearEndTest, PartsThatCannotBeEndTheLink) {
  ExpectEndsLink(Data{kRing, Sequence(4), "x"},
                 "ring 5: a part of 4 comes where one of 3 is due");
  ExpectEndsLink(Data{RingId(6), Sequence(1), "x"},
                 "the far end sends parts of ring 6, which is not there");
  const std::string large(33, 'x');
  ExpectEndsLink(Data{kRing, Sequence(3), large},
                 "ring 5: the parts of 3 have more than 32 bytes");
  near_ = NearEnd(NearOptions(), this, 0);
  ASSERT_TRUE(near_.AddRing(kRing, kLimits, Sequence(2), Sequence(4)).ok());
  Connect();
  ASSERT_TRUE(Hear(Data{kRing, Sequence(3), large.substr(1)}).ok());
  EXPECT_EQ(Complaint(Ends(3, "x")),
            "ring 5: event 3 has an output of 33 bytes: at most 32");
}

class FarEndTest : public testing::Test, public FarHost {
 protected:
  FarEndTest() : far_(FarOptions(), this, 0) {}

  std::optional<absl::Status> MakeRing(RingId ring, RingSerial serial,
                                       const RingLimits&,
                                       Sequence last) override {
    if (!full_.empty()) return absl::ResourceExhaustedError(full_);
    serial_ = serial;
    if (later_) return std::nullopt;
    calls_.push_back(fmt::format("make {} {}", ring.value(), last.value()));
    return absl::OkStatus();
  }
  void RunEvent(RingId, Sequence number, std::string_view event) override {
    calls_.push_back(fmt::format("run {} {}", number.value(), event));
  }
  End ReadEnd(RingId, Sequence number, std::string* output) override {
    *output +=
        output_.empty() ? fmt::format("out {}", number.value()) : output_;
    return {EventState::kFailed, 9, {}};
  }
  void Free(RingId, Sequence last) override {
    calls_.push_back(fmt::format("free {}", last.value()));
  }
  void DropRing(RingId ring, GoneReason why) override {
    calls_.push_back(
        fmt::format("drop {} {}", ring.value(), static_cast<int>(why)));
  }

  static std::string Dropped(GoneReason why) {
    return fmt::format("drop 5 {}", static_cast<int>(why));
  }
  std::vector<std::string> Calls() { return std::exchange(calls_, {}); }
  absl::Status Hear(const Frame& frame) {
    return far_.Receive(epoch_, Encoded(frame), now_);
  }
  std::string Complaint(const Frame& frame) {
    return std::string(Hear(frame).message());
  }
  std::string Refused(const Hello& hello) {
    const auto answer = far_.Accept(hello, now_);
    const auto* const refusal = std::get_if<Refusal>(&answer);
    return refusal == nullptr ? "accepted" : refusal->why;
  }
  void Accept(uint64_t incarnation = 3) {
    Hello hello = NearOptions().self;
    hello.incarnation = incarnation;
    hello.connection = ++connections_;
    const auto answer = far_.Accept(hello, now_);
    ASSERT_TRUE(std::holds_alternative<Epoch>(answer));
    epoch_ = std::get<Epoch>(answer);
  }
  // The ring is there, and events 3 and 4 are accepted.
  void Connect() {
    Accept();
    ASSERT_TRUE(Hear(Ring{kRing, Sequence(2), kLimits}).ok());
    ASSERT_THAT(Names(Said(far_, now_)), ElementsAre("HELLO", "RING"));
    ASSERT_TRUE(Hear(Events{kRing, Sequence(3), Sequence(2), {"a", "b"}}).ok());
    Calls();
  }
  void ExpectEndsLink(const Frame& frame, const std::string& complaint) {
    far_ = FarEnd(FarOptions(), this, 0);
    Connect();
    EXPECT_EQ(Complaint(frame), complaint);
    EXPECT_THAT(Calls(), testing::Contains(Dropped(GoneReason::kBroken)));
    EXPECT_EQ(Refused(NearOptions().self),
              "host a of incarnation 3 has broken a rule: " + complaint);
    Accept(4);
  }

  Nanoseconds now_ = 0;
  uint64_t connections_ = 0;
  FarEnd far_;
  Epoch epoch_;
  std::map<uint64_t, uint64_t> ran_;  // events, by ring
  RingSerial serial_;                 // of the newest ring
  std::string full_;                  // why no ring is made
  bool later_ = false;                // whether one is made
  std::string output_;                // else "out" and the number
  std::vector<std::string> calls_;
};

TEST_F(FarEndTest, ASlotIsFreeOnceItsEndIsAcknowledged) {
  Connect();
  far_.Done(kRing, serial_, Sequence(4));
  const mesh::Done both{
      kRing,
      Sequence(3),
      {{EventState::kFailed, 9, "out 3"}, {EventState::kFailed, 9, "out 4"}}};
  EXPECT_THAT(Said(far_, 0), ElementsAre(Encoded(both)));
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(far_.in_flight(), 2u);
  ASSERT_TRUE(Hear(Events{kRing, Sequence(5), Sequence(3), {"c"}}).ok());
  EXPECT_THAT(Calls(), ElementsAre("free 3", "run 5 c"));
  EXPECT_EQ(far_.in_flight(), 2u);
  // The same again on another connection, but for what is stored.
  Accept();
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(3), kLimits}).ok());
  const mesh::Done again{
      kRing, Sequence(4), {{EventState::kFailed, 9, "out 4"}}};
  EXPECT_THAT(
      Said(far_, 0),
      ElementsAre(Encoded(FarOptions().self),
                  Encoded(Ring{kRing, Sequence(5), kLimits}), Encoded(again)));
}

TEST_F(FarEndTest, WhatBreaksARuleEndsTheLinkAndItsRings) {
  const auto events = [](uint64_t first, uint64_t completed, size_t count,
                         std::string_view event = "e") {
    return Events{kRing, Sequence(first), Sequence(completed),
                  std::vector<std::string_view>(count, event)};
  };
  ExpectEndsLink(events(4, 2, 1), "ring 5: event 4 comes after 4");
  ExpectEndsLink(events(6, 2, 1), "ring 5: event 6 comes after 4");
  ExpectEndsLink(events(5, 1, 1),
                 "ring 5: the near end acknowledges 1, of 2 sent and 2 freed");
  ExpectEndsLink(events(5, 3, 1),
                 "ring 5: the near end acknowledges 3, of 2 sent and 2 freed");
  ExpectEndsLink(events(5, 2, 3), "ring 5: 1 events more than its 4 slots");
  ExpectEndsLink(events(5, 2, 1, "more bytes than the ring's limit is"),
                 "ring 5: event 5 has 35 bytes: at most 32");
  ExpectEndsLink(Events{RingId(6), Sequence(1), Sequence(0), {"x"}},
                 "the near end sends events of ring 6, which is not there");
  ExpectEndsLink(Ring{kRing, Sequence(2), kLimits},
                 "the near end names ring 5 twice");
  ExpectEndsLink(mesh::Done{kRing, Sequence(1), {{EventState::kDone, 0, ""}}},
                 "the near end sends DONE");
  ExpectEndsLink(NearOptions().self, "the near end sends HELLO");
  ExpectEndsLink(Refusal{RefusalCode::kOther, ""},
                 "the near end sends REFUSAL");
  ExpectEndsLink(Ping{1, 5'000'000'000, 0},
                 "the near end answers no PING of ours");
}

TEST_F(FarEndTest, PartsAreJoinedAndBounded) {
  Connect();
  ASSERT_TRUE(Hear(Data{kRing, Sequence(5), "abc"}).ok());
  ASSERT_TRUE(Hear(Events{kRing, Sequence(5), Sequence(2), {"def", "g"}}).ok());
  EXPECT_THAT(Calls(), ElementsAre("run 5 abcdef", "run 6 g"));
  const std::string large(33, 'x');
  ExpectEndsLink(Data{kRing, Sequence(5), large},
                 "ring 5: the parts of 5 have more than 32 bytes");
  ExpectEndsLink(Data{kRing, Sequence(6), "x"},
                 "ring 5: a part of 6 comes where one of 5 is due");
  ExpectEndsLink(Data{RingId(6), Sequence(1), "x"},
                 "the near end sends parts of ring 6, which is not there");
}

TEST_F(FarEndTest, NothingComesAmidTheParts) {
  Connect();
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(0), kLimits}).ok());
  Said(far_, 0);
  ASSERT_TRUE(Hear(Data{kRing, Sequence(5), "abc"}).ok());
  EXPECT_EQ(Complaint(Events{RingId(6), Sequence(1), Sequence(0), {"x"}}),
            "ring 6: events come amid the parts of ring 5");
  Accept(4);
  for (const RingId ring : {kRing, RingId(6)}) {
    ASSERT_TRUE(Hear(Ring{ring, Sequence(0), kLimits}).ok());
  }
  Said(far_, 0);
  ASSERT_TRUE(Hear(Data{kRing, Sequence(1), "abc"}).ok());
  EXPECT_EQ(Complaint(Data{RingId(6), Sequence(1), "x"}),
            "ring 6: a part comes amid the parts of ring 5");
}

TEST_F(FarEndTest, PartsOfACutConnectionAreForgotten) {
  Connect();
  ASSERT_TRUE(Hear(Data{kRing, Sequence(5), "abc"}).ok());
  Accept();
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(2), kLimits}).ok());
  Said(far_, 0);
  Calls();
  ASSERT_TRUE(Hear(Events{kRing, Sequence(5), Sequence(2), {"def"}}).ok());
  EXPECT_THAT(Calls(), ElementsAre("run 5 def"));
}

TEST_F(FarEndTest, ANumberThatCannotBeEndsTheLink) {
  for (const auto& [number, limits, complaint] :
       {std::tuple(1u, kLimits,
                   "ring 5: the near end says that it has completed 1, of 4 "
                   "done and 2 freed"),
        std::tuple(5u, kLimits,
                   "ring 5: the near end says that it has completed 5, of 4 "
                   "done and 2 freed"),
        std::tuple(3u, RingLimits{8, 32, 32},
                   "ring 5: the near end names it with other limits")}) {
    far_ = FarEnd(FarOptions(), this, 0);
    Connect();
    far_.Done(kRing, serial_, Sequence(4));
    Accept();
    EXPECT_EQ(Complaint(Ring{kRing, Sequence(number), limits}), complaint);
  }
}

TEST_F(FarEndTest, EventsBeforeTheAnswerAreABrokenRule) {
  Accept();
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(2), kLimits}).ok());
  EXPECT_FALSE(Hear(Events{kRing, Sequence(3), Sequence(2), {"a"}}).ok());
}

TEST_F(FarEndTest, GarbageEndsTheLink) {
  Connect();
  EXPECT_FALSE(far_.Receive(epoch_, "GET / HTTP/1.1\r\n\r\n", 0).ok());
  EXPECT_FALSE(far_.is_up());
}

TEST_F(FarEndTest, WhatANearEndCanHoldIsBounded) {
  Accept();
  for (uint64_t i = 0; i < kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Ring{RingId(i), Sequence(0), kLimits}).ok());
  }
  EXPECT_EQ(Complaint(Ring{RingId(9'999), Sequence(0), kLimits}),
            "the near end has more than 1024 rings");
  Accept(4);
  for (uint64_t i = 0; i < 2 * kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Close{RingId(i)}).ok());
  }
  EXPECT_EQ(Complaint(Close{RingId(1)}),
            "the near end closes rings faster than it takes the answers");
}

TEST_F(FarEndTest, WhoIsNotExpectedIsRefusedWithASentence) {
  Hello hello = NearOptions().self;
  hello.build = "2";
  EXPECT_THAT(Refused(hello), HasSubstr("build '2', and '1' is expected"));
  hello = NearOptions().self;
  hello.catalogue = "others";
  EXPECT_THAT(Refused(hello), HasSubstr("'others', and 'kernels' is expected"));
  Connect();
  hello = NearOptions().self;
  hello.incarnation = 2;
  EXPECT_EQ(Refused(hello),
            "host a of incarnation 3 has come after the one of 2: the older "
            "one no longer serves; if these are two machines, give each a name "
            "of its own");
  EXPECT_TRUE(far_.is_up()) << "a refused host has disturbed the other one";
}

TEST_F(FarEndTest, ALateConnectionOfTheSameHostTakesNobodysPlace) {
  Connect();
  Hello late = NearOptions().self;
  for (const uint64_t connection : {connections_, connections_ - 1}) {
    late.connection = connection;
    EXPECT_EQ(Refused(late), "a newer connection of this host has come");
  }
  EXPECT_TRUE(far_.is_up());
  ASSERT_TRUE(Hear(Events{kRing, Sequence(5), Sequence(2), {"c"}}).ok());
  EXPECT_THAT(Calls(), ElementsAre("run 5 c"));
}

TEST_F(FarEndTest, AReadOfNothingIsNoSignOfLife) {
  Connect();
  ASSERT_TRUE(far_.Receive(epoch_, "", 2'000 * kMs).ok());
  EXPECT_TRUE(far_.IsSilent(2'000 * kMs));
}

TEST_F(FarEndTest, ANearClockThatRunsFasterIsNoBrokenRule) {
  Connect();
  Said(far_, 100 * kMs);
  now_ = 500 * kMs;
  ASSERT_TRUE(Hear(Ping{1, 100 * kMs, 401 * kMs}).ok());
  EXPECT_FALSE(far_.rtt().has_value());
  ASSERT_TRUE(Hear(Ping{1, 100 * kMs, 390 * kMs}).ok());
  EXPECT_EQ(far_.rtt(), 10 * kMs);
}

TEST_F(FarEndTest, ATimeThatGoesBackEndsNothing) {
  now_ = 200 * kMs;
  Connect();
  ASSERT_THAT(Names(Said(far_, 300 * kMs)), ElementsAre("PING"));
  now_ = 300 * kMs;
  ASSERT_TRUE(Hear(Ping{1, 300 * kMs, 0}).ok());
  now_ = 100 * kMs;
  EXPECT_FALSE(far_.IsSilent(now_));
  EXPECT_THAT(Said(far_, now_), IsEmpty());
  far_.Tick(now_);
  ASSERT_TRUE(Hear(Ping{1, 300 * kMs, 0}).ok());
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(FarEndTest, SilenceIsToldAfterTheTimeout) {
  Connect();
  EXPECT_FALSE(far_.IsSilent(1'000 * kMs));
  EXPECT_TRUE(far_.IsSilent(1'000 * kMs + 1));
}

TEST_F(FarEndTest, ANewerHostTakesTheRingsPlace) {
  Connect();
  const Epoch old = epoch_;
  Accept(4);
  EXPECT_THAT(Calls(), ElementsAre(Dropped(GoneReason::kFenced)));
  EXPECT_TRUE(
      far_.Receive(old,
                   Encoded(Events{
                       kRing, Sequence(5), Sequence(2), {"of the old one"}}),
                   0)
          .ok());
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(FarEndTest, ALeaseThatIsOverAbortsAndStaysOver) {
  Connect();
  far_.Cut(epoch_);
  far_.Tick(60'000 * kMs);
  EXPECT_THAT(Calls(), IsEmpty());
  far_.Tick(60'000 * kMs + 1);
  EXPECT_THAT(Calls(), ElementsAre(Dropped(GoneReason::kLinkLost)));
  EXPECT_EQ(
      Refused(NearOptions().self),
      "host a was not heard of for longer than the lease of 1min, and its "
      "events are aborted");
  Accept(4);
}

TEST_F(FarEndTest, ARingThatFindsNoPlaceIsRefusedWithAReason) {
  Connect();
  full_ = "no memory";
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(0), kLimits}).ok());
  EXPECT_THAT(Said(far_, 0),
              ElementsAre(Encoded(Close{RingId(6), "no memory"})));
  // The other one is as it was.
  ASSERT_TRUE(Hear(Events{kRing, Sequence(5), Sequence(2), {"c"}}).ok());
  EXPECT_THAT(Calls(), ElementsAre("run 5 c"));
  // What waits to be sent is bounded.
  for (uint64_t i = 0; i < 2 * kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Ring{RingId(100 + i), Sequence(0), kLimits}).ok());
  }
  EXPECT_EQ(Complaint(Ring{RingId(99), Sequence(0), kLimits}),
            "the near end closes rings faster than it takes the answers");
}

TEST_F(FarEndTest, ARingMayBeMadeLater) {
  Connect();
  later_ = true;
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(0), kLimits}).ok());
  EXPECT_THAT(Said(far_, 0), IsEmpty());
  far_.Made(RingId(6), serial_);
  EXPECT_THAT(Said(far_, 0),
              ElementsAre(Encoded(Ring{RingId(6), Sequence(0), kLimits})));
  // Or not: the near end, which has no answer yet, has nothing to close.
  ASSERT_TRUE(Hear(Ring{RingId(7), Sequence(0), kLimits}).ok());
  far_.GiveUp(RingId(7), serial_, absl::UnavailableError("gpud is away"));
  EXPECT_THAT(Said(far_, 0),
              ElementsAre(Encoded(Close{RingId(7), "gpud is away", true})));
  EXPECT_EQ(Complaint(Events{RingId(7), Sequence(1), Sequence(0), {"c"}}),
            "the near end sends events of ring 7, which is not there");
}

TEST_F(FarEndTest, WhatComesOfARingThatWasGivenUpCountsForNothing) {
  Connect();
  far_.Done(kRing, serial_, Sequence(3));
  far_.GiveUp(kRing, RingSerial(99), absl::InternalError("of another one"));
  far_.GiveUp(kRing, serial_, absl::InternalError("evicted"));
  EXPECT_THAT(Said(far_, 0), ElementsAre(Encoded(Close{kRing, "evicted"})));
  const Events crossing{kRing, Sequence(5), Sequence(3), {"c"}};
  ASSERT_TRUE(Hear(crossing).ok());
  ASSERT_TRUE(Hear(Data{kRing, Sequence(6), "a part"}).ok());
  EXPECT_THAT(Calls(), IsEmpty());
  // The near end's CLOSE is the last of it.
  ASSERT_TRUE(Hear(Close{kRing}).ok());
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_THAT(Said(far_, 0), ElementsAre(Encoded(Close{kRing})));
  EXPECT_EQ(Complaint(crossing),
            "the near end sends events of ring 5, which is not there");
}

TEST_F(FarEndTest, RingsThatWereGivenUpCountUntilTheyAreClosed) {
  Accept();
  for (uint64_t i = 1; i <= kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Ring{RingId(i), Sequence(0), kLimits}).ok());
    Said(far_, 0);
    far_.GiveUp(RingId(i), serial_, absl::UnavailableError("gpud is away"));
    Said(far_, 0);
  }
  EXPECT_EQ(Complaint(Ring{RingId(5000), Sequence(0), kLimits}),
            "the near end has more than 1024 rings");
}

// While the connection takes nothing: no rule is broken.
TEST_F(FarEndTest, AllRingsMayBeGivenUpAndClosedBeforeAnAnswerIsSent) {
  Accept();
  std::vector<RingSerial> serials;
  for (uint64_t i = 1; i <= kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Ring{RingId(i), Sequence(0), kLimits}).ok());
    Said(far_, 0);
    serials.push_back(serial_);
  }
  for (uint64_t i = 1; i <= kMaxRings; ++i) {
    far_.GiveUp(RingId(i), serials[i - 1],
                absl::UnavailableError("gpud is away"));
  }
  for (uint64_t i = 1; i <= kMaxRings; ++i) {
    ASSERT_TRUE(Hear(Close{RingId(i)}).ok()) << i;
  }
}

TEST_F(FarEndTest, WhatAnEarlierRingOfAnIdHasDoneIsNotTheNextOnes) {
  Connect();
  const RingSerial old = serial_;
  ASSERT_TRUE(Hear(Close{kRing}).ok());
  ASSERT_TRUE(Hear(Ring{kRing, Sequence(2), kLimits}).ok());
  ASSERT_THAT(Names(Said(far_, 0)), ElementsAre("CLOSE", "RING"));
  ASSERT_TRUE(Hear(Events{kRing, Sequence(3), Sequence(2), {"c", "d"}}).ok());
  far_.Done(kRing, old, Sequence(4));
  EXPECT_THAT(Said(far_, 0), IsEmpty());
  far_.Done(kRing, serial_, Sequence(4));
  EXPECT_THAT(Names(Said(far_, 0)), ElementsAre("DONE"));
}

TEST_F(FarEndTest, RingsTakeTurnsAndFramesAreBounded) {
  Accept();
  const RingLimits wide{1024, 8, 40'000};
  std::vector<RingSerial> serials;
  for (const uint64_t ring : {6, 7, 8}) {
    ASSERT_TRUE(Hear(Ring{RingId(ring), Sequence(0), wide}).ok());
    serials.push_back(serial_);
  }
  Said(far_, 0);
  const auto run = [&](uint64_t ring, size_t count) {
    while (count > 0) {
      const size_t some = std::min(count, kMaxItems);
      Events events{RingId(ring), Sequence(1 + ran_[ring]), Sequence(0), {}};
      events.items.assign(some, "e");
      ASSERT_TRUE(Hear(events).ok());
      ran_[ring] += some;
      count -= some;
    }
    far_.Done(RingId(ring), serials[ring - 6], Sequence(ran_[ring]));
  };
  const auto said = [&] {
    std::vector<std::string> frames;
    for (const std::string& bytes : Said(far_, 0)) {
      EXPECT_LE(bytes.size(), kHeaderBytes + kMaxPayloadBytes);
      FrameDecoder decoder;
      decoder.Append(bytes);
      const auto frame = decoder.Next();
      EXPECT_TRUE(frame.ok()) << frame.status();
      const auto& done = std::get<mesh::Done>(**frame);
      frames.push_back(
          fmt::format("{}: {}", done.ring.value(), done.items.size()));
    }
    return frames;
  };
  // Two do not fit one frame.
  output_ = std::string(40'000, 'x');
  run(6, 3);
  run(7, 2);
  EXPECT_THAT(said(), ElementsAre("6: 1", "7: 1", "6: 1", "7: 1", "6: 1"));
  // As many items as a frame may have, and one more.
  output_ = "x";
  run(8, 257);
  EXPECT_THAT(said(), ElementsAre("8: 256", "8: 1"));
  // As many bytes as a frame may have, and one more.
  output_ = std::string((kMaxPayloadBytes - DoneBytes(4, 0)) / 4, 'x');
  run(8, 4);
  EXPECT_THAT(said(), ElementsAre("8: 4"));
  output_ += "x";
  run(8, 4);
  EXPECT_THAT(said(), ElementsAre("8: 3", "8: 1"));
}

TEST_F(FarEndTest, ARingThatIsNotNamedAgainIsDropped) {
  Connect();
  Accept();
  ASSERT_TRUE(Hear(Ring{RingId(6), Sequence(0), kLimits}).ok());
  EXPECT_THAT(Calls(), ElementsAre("make 6 0"));
  ASSERT_TRUE(Hear(Named{}).ok());
  EXPECT_THAT(Calls(), ElementsAre(Dropped(GoneReason::kClosed)));
  EXPECT_EQ(Complaint(Named{}), "the near end sends NAMED twice");
}

TEST_F(FarEndTest, AClosedRingIsAnsweredAndDropped) {
  Connect();
  ASSERT_TRUE(Hear(Close{kRing}).ok());
  EXPECT_THAT(Calls(), ElementsAre(Dropped(GoneReason::kClosed)));
  far_.Done(kRing, serial_, Sequence(4));
  EXPECT_THAT(Said(far_, 0), ElementsAre(Encoded(Close{kRing})));
}

}  // namespace
}  // namespace carillon::mesh
