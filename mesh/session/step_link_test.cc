// Both ends over loopback, with a relay between them that cuts.
#include "mesh/session/step_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/tcp_relay.h"
#include "base/testing/test_ca.h"

namespace carillon::mesh {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds kMs = 1'000'000;
// Goes in parts.
constexpr size_t kLarge = kMaxStepBytes - 64;

v1::SessionStep Numbered(uint64_t number, size_t bytes = 0) {
  v1::SessionStep step;
  step.mutable_bytes()->set_connection(number);
  step.mutable_bytes()->set_bytes(std::string(bytes, 'x'));
  return step;
}

class StepLinkTest : public ::testing::Test {
 protected:
  LinkOptions OptionsOf(const std::string& host, const std::string& peer,
                        uint64_t incarnation) const {
    return {
        .self = {.testbed = "lab",
                 .host = host,
                 .build = OwnBuild(),
                 .catalogue = SimulatedCatalogue("64 kernels", "1234"),
                 .incarnation = incarnation},
        .peer = peer,
        .times = {
            .ping = 10 * kMs, .timeout = 2000 * kMs, .lease = 60'000 * kMs}};
  }
  TlsFiles FilesOf(const std::string& host) const {
    return ca_.Issue(
        {.name = host,
         .alternative_names = "URI:carillon:role:link,DNS:" + host});
  }
  void StartFar(const std::string& address) {
    far_.reset();
    auto far = FarStepLink::Start(
        {.tls = b_, .address = address, .link = OptionsOf("b", "a", 1)}, [] {});
    ASSERT_TRUE(far.ok()) << far.status();
    far_ = *std::move(far);
  }
  void StartNear(uint64_t incarnation = 1) {
    near_.reset();
    if (relay_ == nullptr) relay_ = std::make_unique<TcpRelay>(far_->address());
    auto near = NearStepLink::Start({.tls = a_,
                                     .address = relay_->address(),
                                     .link = OptionsOf("a", "b", incarnation)},
                                    [] {});
    ASSERT_TRUE(near.ok()) << near.status();
    near_ = *std::move(near);
  }
  // Those of the steps that have come by now.
  template <class Link>
  static void TakeInto(Link& link, std::vector<uint64_t>* numbers,
                       std::optional<std::string>* lost = nullptr) {
    const StepNews news = link.Take();
    for (const v1::SessionStep& step : news.steps) {
      numbers->push_back(step.bytes().connection());
    }
    if (lost != nullptr && news.lost) *lost = news.lost;
  }
  static std::vector<uint64_t> UpTo(uint64_t last) {
    std::vector<uint64_t> numbers;
    for (uint64_t i = 1; i <= last; ++i) numbers.push_back(i);
    return numbers;
  }

  const TempDirectory files_ = *TempDirectory::Make();
  const TestCa ca_{files_.path()};
  const TlsFiles a_ = FilesOf("a");
  const TlsFiles b_ = FilesOf("b");
  std::unique_ptr<FarStepLink> far_;
  std::unique_ptr<TcpRelay> relay_;
  std::unique_ptr<NearStepLink> near_;
};

TEST_F(StepLinkTest, EachStepComesOnceInOrderHoweverTheLinkIsCut) {
  StartFar("127.0.0.1:0");
  StartNear();
  std::vector<uint64_t> up;
  std::vector<uint64_t> down;
  near_->Send(Numbered(1));
  // What the far end says before the near one is there, nobody hears.
  ASSERT_TRUE(Eventually([&] {
    TakeInto(*far_, &up);
    return !up.empty();
  }));
  relay_->CutAfter(40'000);
  relay_->Cut();
  constexpr uint64_t kSteps = 2000;  // more than the rings have slots
  uint64_t sent = 1;
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 100 && sent < kSteps; ++i) {
      ++sent;
      near_->Send(Numbered(sent));
      far_->Send(Numbered(sent));
    }
    TakeInto(*far_, &up);
    TakeInto(*near_, &down);
    return up.size() == kSteps && !down.empty() && down.back() == kSteps;
  }));
  EXPECT_EQ(up, UpTo(kSteps));
  std::vector<uint64_t> answers = UpTo(kSteps);
  answers.erase(answers.begin());
  EXPECT_EQ(down, answers);
  EXPECT_GT(relay_->connections(), 1u);
  relay_->CutAfter(0);
}

TEST_F(StepLinkTest, LargeStepsCome) {
  StartFar("127.0.0.1:0");
  StartNear();
  near_->Send(Numbered(1, kLarge));
  size_t bytes = 0;
  EXPECT_TRUE(Eventually([&] {
    for (const auto& step : far_->Take().steps) {
      bytes += step.bytes().bytes().size();
    }
    return bytes != 0;
  }));
  EXPECT_EQ(bytes, kLarge);
  far_->Send(Numbered(1, kLarge));
  bytes = 0;
  EXPECT_TRUE(Eventually([&] {
    for (const auto& step : near_->Take().steps) {
      bytes += step.bytes().bytes().size();
    }
    return bytes != 0;
  }));
  EXPECT_EQ(bytes, kLarge);
}

TEST_F(StepLinkTest, EitherEndIsFullUntilTheOtherTakesWhatWaits) {
  StartFar("127.0.0.1:0");
  StartNear();
  near_->Send(Numbered(0));
  ASSERT_TRUE(Eventually([&] { return !far_->Take().steps.empty(); }));
  const auto fill = [](auto& link) {
    uint64_t sent = 0;
    while (sent < 1000 && !link.is_full())
      link.Send(Numbered(++sent, 64 << 10));
    return sent;
  };
  const uint64_t up_sent = fill(*near_);
  const uint64_t down_sent = fill(*far_);
  EXPECT_LT(up_sent, 100u);
  EXPECT_LT(down_sent, 100u);
  std::vector<uint64_t> up;
  std::vector<uint64_t> down;
  EXPECT_TRUE(Eventually([&] {
    TakeInto(*far_, &up);
    TakeInto(*near_, &down);
    return up.size() == up_sent && down.size() == down_sent &&
           !near_->is_full() && !far_->is_full();
  })) << up.size()
      << " of " << up_sent << ", " << down.size() << " of " << down_sent;
}

// A near end of another making.
struct Stranger final : NearHost {
  void ReadEvent(RingId, shm::Sequence, std::string*) override {}
  bool TakeEnd(RingId, shm::Sequence, const End&) override { return true; }
  void HoldRing(RingId) override { held = true; }
  void LoseRing(RingId, const std::string& reason, bool) override {
    MutexLock lock(mutex);
    why = reason;
  }
  void LoseLink(const std::string&) override {}

  std::atomic<bool> held{false};
  Mutex mutex;
  std::string why ABSL_GUARDED_BY(mutex);
};

TEST_F(StepLinkTest, RingsOfOtherLimitsAreRefusedOverTheLink) {
  StartFar("127.0.0.1:0");
  uint64_t incarnation = 0;
  for (const auto& [ring, limits] :
       {std::pair(RingId(1), RingLimits{65536, kMaxEventBytes, 0, "steps"}),
        std::pair(RingId(1), RingLimits{65536, kMaxStepBytes, 0, "steps"}),
        std::pair(RingId(2),
                  RingLimits{65536, 0, kMaxEventBytes, "steps back"}),
        std::pair(RingId(2), RingLimits{64, 0, 1, "steps back"})}) {
    Stranger stranger;
    LinkOptions options = OptionsOf("a", "b", ++incarnation);
    auto link = NearLink::Start(
        {.tls = a_, .address = far_->address(), .link = options}, &stranger);
    ASSERT_TRUE(link.ok()) << link.status();
    (*link)->With([&, ring = ring, limits = limits](NearEnd& near) {
      EXPECT_TRUE(
          near.AddRing(ring, limits, shm::Sequence(0), shm::Sequence(0)).ok());
    });
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(stranger.mutex);
      return stranger.held || !stranger.why.empty();
    }));
    link->reset();
    MutexLock lock(stranger.mutex);
    EXPECT_THAT(stranger.why, HasSubstr("carries sessions alone"))
        << ring.value() << ": " << limits.slots;
  }
}

TEST_F(StepLinkTest, AFarEndThatIsStartedAgainIsRefusedForGood) {
  StartFar("127.0.0.1:0");
  StartNear();
  near_->Send(Numbered(1));
  std::vector<uint64_t> up;
  std::vector<uint64_t> down;
  ASSERT_TRUE(Eventually([&] {
    TakeInto(*far_, &up);
    return !up.empty();
  }));
  far_->Send(Numbered(1));
  ASSERT_TRUE(Eventually([&] {
    TakeInto(*near_, &down);
    return !down.empty();
  }));
  const std::string address = far_->address();
  StartFar(address);
  std::optional<std::string> lost;
  EXPECT_TRUE(Eventually([&] {
    TakeInto(*near_, &down, &lost);
    return lost.has_value();
  }));
  EXPECT_THAT(*lost, HasSubstr("simulated time does not go back"));
}

TEST_F(StepLinkTest, ANearEndThatIsStartedAgainBeginsAnew) {
  StartFar("127.0.0.1:0");
  StartNear(1);
  near_->Send(Numbered(1));
  std::vector<uint64_t> up;
  ASSERT_TRUE(Eventually([&] {
    TakeInto(*far_, &up);
    return !up.empty();
  }));
  StartNear(2);
  near_->Send(Numbered(7));
  up.clear();
  std::optional<std::string> lost;
  EXPECT_TRUE(Eventually([&] {
    TakeInto(*far_, &up, &lost);
    return !up.empty();
  }));
  EXPECT_EQ(up, std::vector<uint64_t>{7});
  EXPECT_TRUE(lost.has_value()) << "what the one before had is over";
}

}  // namespace
}  // namespace carillon::mesh
