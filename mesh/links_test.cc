// Two ends over loopback, with certificates that the test makes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/eventually.h"
#include "base/testing/tcp_relay.h"
#include "base/testing/test_ca.h"
#include "fmt/format.h"
#include "mesh/far_link.h"
#include "mesh/near_link.h"
namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;
using testing::HasSubstr;

constexpr Nanoseconds kMs = 1'000'000;
constexpr LinkTimes kPatient = {.ping = 20 * kMs, .timeout = 600'000 * kMs};
constexpr RingId kRing(1);
const RingLimits kLimits{8, 64, 64};

std::string EventText(uint64_t number) {
  return fmt::format("event {}", number);
}

// A device with one ring.
class Device : public NearHost {
 public:
  void ReadEvent(RingId, Sequence number, std::string* to) override {
    *to += EventText(number.value());
  }
  bool TakeEnd(RingId, Sequence number, const End& end) override {
    if (number.value() != ended_ + 1 || end.state != EventState::kDone ||
        end.output != "done: " + EventText(number.value())) {
      ++wrong_;
    }
    ended_ = number.value();
    return true;
  }
  void LoseRing(RingId, const std::string&, bool) override { ++wrong_; }
  void LoseLink(const std::string& why) override {
    MutexLock lock(mutex_);
    lost_ = why;
  }

  // Rings as many events as there are free slots, at most up to `last`.
  void RingUpTo(uint64_t last, NearLink& link) {
    link.With([&](NearEnd& end) {
      const uint64_t to = std::min(last, ended_ + kLimits.slots);
      if (to <= rung_) return;
      rung_ = to;
      end.Rang(kRing, Sequence(rung_));
    });
  }

  // For another link.
  void Restart() {
    rung_ = 0;
    ended_ = 0;
  }

  uint64_t ended() const { return ended_; }
  int wrong() const { return wrong_; }
  std::string lost() {
    MutexLock lock(mutex_);
    return lost_;
  }

 private:
  uint64_t rung_ = 0;
  std::atomic<uint64_t> ended_ = 0;  // written by the link's thread
  std::atomic<int> wrong_ = 0;       // the same
  Mutex mutex_;
  std::string lost_ ABSL_GUARDED_BY(mutex_);
};

// What the far end's events run on. All but Work() is called with the link's
// lock.
class Gpu : public FarHost {
 public:
  std::optional<absl::Status> MakeRing(RingId, RingSerial serial,
                                       const RingLimits&, Sequence) override {
    serial_ = serial;
    return absl::OkStatus();
  }
  void RunEvent(RingId, Sequence number, std::string_view event) override {
    events_[number.value()] = event;
    ++runs_[number.value()];
    accepted_ = number.value();
  }
  End ReadEnd(RingId, Sequence number, std::string* output) override {
    *output += "done: " + events_.at(number.value());
    return {EventState::kDone, 0, {}};
  }
  void Free(RingId, Sequence last) override {
    events_.erase(events_.begin(), events_.upper_bound(last.value()));
  }
  void DropRing(RingId, GoneReason why) override {
    dropped_ += why == GoneReason::kLinkLost ? 1 : 0;
  }

  // For another link.
  void Restart() {
    events_.clear();
    runs_.clear();
    accepted_ = 0;
  }

  void Work(FarLink& link) {
    link.With([this](FarEnd& end) {
      if (accepted_ > 0) end.Done(kRing, serial_, Sequence(accepted_));
    });
  }
  // Rings that were dropped because the link was lost.
  int dropped(FarLink& link) {
    int dropped = 0;
    link.With([&](FarEnd&) { dropped = dropped_; });
    return dropped;
  }
  // Of each event.
  std::map<uint64_t, int> runs(FarLink& link) {
    std::map<uint64_t, int> runs;
    link.With([&](FarEnd&) { runs = runs_; });
    return runs;
  }

 private:
  std::map<uint64_t, std::string> events_;
  std::map<uint64_t, int> runs_;
  uint64_t accepted_ = 0;
  RingSerial serial_;
  int dropped_ = 0;
};

// A client of TLS that keeps no rule of ours: any version, any certificate.
class RawClient {
 public:
  RawClient(const std::string& address, const TlsFiles* files,
            int version = TLS1_3_VERSION)
      : fd_(DialLoopback(address)), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, version);
    if (files != nullptr) {
      EXPECT_EQ(SSL_CTX_use_certificate_file(
                    context_, files->certificate.c_str(), SSL_FILETYPE_PEM),
                1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_, files->key.c_str(),
                                            SSL_FILETYPE_PEM),
                1);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_.get());
    SSL_connect(ssl_);
  }
  ~RawClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }

  void Send(const std::string& bytes) {
    SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  // All that the other end says until it ends the connection, or is refused.
  std::string ReadRefusal() {
    FrameDecoder decoder;
    char bytes[4096];
    for (int got; (got = SSL_read(ssl_, bytes, sizeof(bytes))) > 0;) {
      decoder.Append({bytes, static_cast<size_t>(got)});
      for (;;) {
        const auto frame = decoder.Next();
        if (!frame.ok() || !frame->has_value()) break;
        if (const auto* refusal = std::get_if<Refusal>(&**frame)) {
          return refusal->why;
        }
      }
    }
    return "";
  }

 private:
  UniqueFd fd_;
  SSL_CTX* const context_;
  SSL* ssl_;
};

class LinksTest : public testing::TestWithParam<Engine> {
 protected:
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);  // for RawClient
    ca_ = std::make_unique<TestCa>(testing::TempDir());
    near_files_ = Files("a", "URI:carillon:role:link,DNS:a");
    far_files_ = Files("b", "URI:carillon:role:link,DNS:b");
  }
  static TlsFiles Files(const std::string& name, const std::string& names) {
    return ca_->Issue({.name = name, .alternative_names = names});
  }

  static LinkOptions NearOptions() {
    return {.self = {"lab", "a", "1", "kernels", 1}, .peer = "b", .times = {}};
  }
  static LinkOptions FarOptions() {
    return {.self = {"lab", "b", "1", "kernels", 1}, .peer = "a", .times = {}};
  }

  void StartFar(const LinkOptions& options = FarOptions(),
                const TlsFiles& files = far_files_) {
    auto link = FarLink::Start({files, "127.0.0.1:0", options, engine_}, &gpu_);
    ASSERT_TRUE(link.ok()) << link.status();
    far_ = *std::move(link);
  }
  void StartNear(const std::string& address,
                 const LinkOptions& options = NearOptions(),
                 const TlsFiles& files = near_files_) {
    auto link = NearLink::Start({files, address, options, engine_}, &device_);
    ASSERT_TRUE(link.ok()) << link.status();
    near_ = *std::move(link);
    near_->With([](NearEnd& end) {
      ASSERT_TRUE(end.AddRing(kRing, kLimits, Sequence(), Sequence()).ok());
    });
  }
  // Rings `events` and waits for their ends.
  ::testing::AssertionResult RunUpTo(uint64_t events) {
    if (Eventually([&] {
          device_.RingUpTo(events, *near_);
          gpu_.Work(*far_);
          return device_.ended() == events;
        })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << device_.ended() << " of " << events
           << " have ended; near: " << near_->status().error
           << "; far: " << far_->status().error;
  }
  void ExpectEachRanOnce(uint64_t events) {
    EXPECT_EQ(device_.wrong(), 0);
    const auto runs = gpu_.runs(*far_);
    EXPECT_EQ(runs.size(), events);
    for (const auto& [number, count] : runs) EXPECT_EQ(count, 1) << number;
  }
  // The near end has no link, and says why.
  void ExpectNearError(const std::string& text) {
    EXPECT_TRUE(Eventually([&] {
      return near_->status().error.find(text) != std::string::npos;
    })) << near_->status().error;
    EXPECT_EQ(near_->status().connections, 0u);
    EXPECT_FALSE(near_->status().up);
  }
  void ExpectFarError(const std::string& text) {
    EXPECT_TRUE(Eventually([&] {
      return far_->status().error.find(text) != std::string::npos;
    })) << far_->status().error;
    EXPECT_EQ(far_->status().connections, 0u);
  }

  static std::unique_ptr<TestCa> ca_;
  static TlsFiles near_files_;
  static TlsFiles far_files_;
  Engine engine_ = GetParam();
  Device device_;
  Gpu gpu_;
  std::unique_ptr<FarLink> far_;
  std::unique_ptr<TcpRelay> relay_;
  std::unique_ptr<NearLink> near_;  // ends first
};
std::unique_ptr<TestCa> LinksTest::ca_;
TlsFiles LinksTest::near_files_;
TlsFiles LinksTest::far_files_;

std::string NameOfParam(const testing::TestParamInfo<Engine>& info) {
  return std::string(NameOf(info.param));
}
INSTANTIATE_TEST_SUITE_P(, LinksTest,
                         testing::Values(Engine::kTls, Engine::kUcx),
                         NameOfParam);

// What a relay between the ends does to their frames, and what is said by TLS.
class FramesOverTlsTest : public LinksTest {};
INSTANTIATE_TEST_SUITE_P(, FramesOverTlsTest, testing::Values(Engine::kTls),
                         NameOfParam);

class FramesByUcxTest : public LinksTest {};
INSTANTIATE_TEST_SUITE_P(, FramesByUcxTest, testing::Values(Engine::kUcx),
                         NameOfParam);

TEST_P(LinksTest, EventsRunOnceAndTheirEndsComeBack) {
  StartFar();
  StartNear(far_->address());
  EXPECT_TRUE(RunUpTo(1'000));
  ExpectEachRanOnce(1'000);
  EXPECT_EQ(near_->status().connections, 1u);
  EXPECT_TRUE(near_->status().up);
  EXPECT_TRUE(far_->status().up);
  EXPECT_TRUE(Eventually([&] { return near_->status().rtt.has_value(); }));
}

TEST_P(FramesOverTlsTest, ALinkThatIsCutAtAnyByteGoesOnWhereItWas) {
  StartFar();
  relay_ = std::make_unique<TcpRelay>(far_->address());
  relay_->CutAfter(20'000);
  StartNear(relay_->address());
  uint64_t events = 0;
  // However fast it is, it is cut.
  while (events < 50'000 &&
         (events < 500 || near_->status().connections < 10)) {
    events += 100;
    ASSERT_TRUE(RunUpTo(events));
  }
  ExpectEachRanOnce(events);
  EXPECT_GE(near_->status().connections, 10u);
  EXPECT_EQ(device_.lost(), "");
}

TEST_P(FramesOverTlsTest, ASilentLinkIsCutByEitherEndAndGoesOnWhereItWas) {
  const LinkTimes patient = {.ping = 20 * kMs, .timeout = 600'000 * kMs};
  LinkTimes quick = patient;
  quick.timeout = 400 * kMs;
  for (const bool near_is_quick : {true, false}) {
    LinkOptions near = NearOptions();
    LinkOptions far = FarOptions();
    near.times = near_is_quick ? quick : patient;
    far.times = near_is_quick ? patient : quick;
    device_.Restart();
    gpu_.Restart();
    StartFar(far);
    relay_ = std::make_unique<TcpRelay>(far_->address());
    StartNear(relay_->address(), near);
    ASSERT_TRUE(RunUpTo(100));
    relay_->Silence();
    EXPECT_TRUE(Eventually([&] {
      return (near_is_quick ? near_->status() : far_->status()).error ==
             "nothing came for 400ms";
    }));
    EXPECT_TRUE(RunUpTo(200));
    ExpectEachRanOnce(200);
    EXPECT_GE(near_->status().connections, 2u);
    // It is down since something came last.
    EXPECT_GE((near_is_quick ? near_->status() : far_->status()).down,
              quick.timeout);
    near_.reset();
    relay_.reset();
    far_.reset();
  }
}

TEST_P(LinksTest, ALinkThatStaysAwayIsLostAtBothEnds) {
  LinkOptions near = NearOptions();
  LinkOptions far = FarOptions();
  near.times = far.times = {
      .ping = 20 * kMs, .timeout = 1'000 * kMs, .lease = 3'000 * kMs};
  StartFar(far);
  relay_ = std::make_unique<TcpRelay>(far_->address());
  StartNear(relay_->address(), near);
  ASSERT_TRUE(RunUpTo(10));
  relay_->Close();
  EXPECT_TRUE(Eventually([&] { return near_->status().lost; }));
  EXPECT_EQ(device_.lost(),
            "host b was not heard of for longer than the lease of 3s");
  EXPECT_TRUE(Eventually([&] { return gpu_.dropped(*far_) == 1; }));
  // The far end lets nobody of that incarnation in again.
  std::string refusal;
  far_->With([&](FarEnd& end) {
    const auto answer = end.Accept(near.self, NowNs());
    const auto* const refused = std::get_if<Refusal>(&answer);
    if (refused != nullptr) refusal = refused->why;
  });
  EXPECT_THAT(refusal, HasSubstr("its events are aborted"));
}

TEST_P(LinksTest, ANearEndThatIsStartedAgainGoesOn) {
  StartFar();
  StartNear(far_->address());
  ASSERT_TRUE(RunUpTo(100));
  near_.reset();
  auto link = NearLink::Start(
      {near_files_, far_->address(), NearOptions(), engine_}, &device_);
  ASSERT_TRUE(link.ok()) << link.status();
  near_ = *std::move(link);
  near_->With([](NearEnd& end) {
    ASSERT_TRUE(end.AddRing(kRing, kLimits, Sequence(100), Sequence(100)).ok());
  });
  EXPECT_TRUE(RunUpTo(200));
  ExpectEachRanOnce(200);
}

TEST_P(LinksTest, OfTwoHostsOfOneNameTheOlderIsToldWhoCameAndStops) {
  LinkOptions far = FarOptions();
  LinkOptions newer = NearOptions();
  far.times = newer.times = kPatient;
  StartFar(far);
  StartNear(far_->address(), newer);
  ASSERT_TRUE(RunUpTo(10));
  EXPECT_EQ(far_->status().takeovers, 0u);
  newer.self.incarnation = 2;
  Device other;
  auto link =
      NearLink::Start({near_files_, far_->address(), newer, engine_}, &other);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE(Eventually([&] { return near_->status().lost; }));
  EXPECT_TRUE(near_->status().fenced);
  EXPECT_THAT(device_.lost(),
              testing::ContainsRegex(
                  "host a of incarnation 2 has come after the one of 1, from "
                  "127.0.0.1 at 20..-..-.. ..:..:.. UTC: the older one no "
                  "longer serves; if these are two machines, give each a name "
                  "of its own"));
  EXPECT_EQ(far_->status().takeovers, 1u);
  EXPECT_THAT(far_->status().takeover,
              HasSubstr("host a has come from 127.0.0.1, and takes the place "
                        "of one of that name that was still there"));
  // The newer one keeps it: the older one does not come again.
  EXPECT_TRUE(Eventually([&] { return (*link)->status().up; }));
  EXPECT_EQ((*link)->status().downs, 0u);
  EXPECT_EQ(far_->status().connections, 2u);
  // One that comes after its end takes nobody's place.
  link->reset();
  EXPECT_TRUE(Eventually([&] { return !far_->status().up; }));
  newer.self.incarnation = 3;
  link =
      NearLink::Start({near_files_, far_->address(), newer, engine_}, &other);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE(Eventually([&] { return (*link)->status().up; }));
  EXPECT_EQ(far_->status().takeovers, 1u);
}

// So that both ends say how often the link was down.
TEST_P(LinksTest, ALinkGoesOnWithTheHistoryOfTheOneBefore) {
  LinkOptions far = FarOptions();
  LinkOptions next = NearOptions();
  far.times = next.times = kPatient;
  StartFar(far);
  StartNear(far_->address(), next);
  ASSERT_TRUE(RunUpTo(10));
  const LinkHistory history = near_->history();
  near_.reset();
  device_.Restart();
  next.self.incarnation = 2;
  auto link = NearLink::Start(
      {near_files_, far_->address(), next, engine_, history}, &device_);
  ASSERT_TRUE(link.ok()) << link.status();
  near_ = *std::move(link);
  EXPECT_TRUE(Eventually([&] { return near_->status().up; }));
  EXPECT_EQ(near_->status().connections, 2u);
  EXPECT_EQ(near_->status().downs, 1u);
  EXPECT_GT(near_->status().down, 0u);
  EXPECT_EQ(far_->status().connections, 2u);
  EXPECT_EQ(far_->status().downs, 1u);
}

TEST_P(LinksTest, AConnectionThatTakesAnothersPlaceIsNoSecondOne) {
  StartFar();
  StartNear(far_->address());
  EXPECT_TRUE(Eventually([&] { return near_->status().up; }));
  // The same near end again, of whose first connection no end has come.
  const auto again = NearLink::Start(
      {near_files_, far_->address(), NearOptions(), engine_}, &device_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(Eventually([&] { return far_->status().connections > 1; }));
  EXPECT_TRUE(Eventually([&] {
    const LinkStatus status = far_->status();
    return status.up && status.downs + 1 == status.connections;
  })) << far_->status().downs
      << " of " << far_->status().connections;
}

TEST_P(LinksTest, AnotherRoleOpensNoLink) {
  StartFar();
  const TlsFiles viewer = Files("viewer",
                                "URI:carillon:role:viewer,DNS:a,"
                                "DNS:carillon:role:link,"
                                "email:carillon:role:link");
  RawClient client(far_->address(), &viewer);
  EXPECT_EQ(client.ReadRefusal(),
            far_->address() +
                " is where host b waits for host a: a link needs the role "
                "link, which the certificate of CN=viewer does not carry: ask "
                "the owner of the CA for one with URI:carillon:role:link");
  EXPECT_TRUE(gpu_.runs(*far_).empty());
}

// Or it would say that all is well, and only the other end that it is not.
TEST_P(LinksTest, AnEndWhoseOwnCertificateOpensNoLinkDoesNotStart) {
  const auto refusal = [&](const TlsFiles& files) {
    const auto far =
        FarLink::Start({files, "127.0.0.1:0", FarOptions(), engine_}, &gpu_);
    EXPECT_EQ(far.status().code(), absl::StatusCode::kInvalidArgument);
    LinkOptions options = NearOptions();
    options.self.host = "b";
    const auto near =
        NearLink::Start({files, "127.0.0.1:1", options, engine_}, &device_);
    EXPECT_EQ(near.status(), far.status());
    return std::string(far.status().message());
  };
  const TlsFiles viewer = Files("viewer", "URI:carillon:role:viewer,DNS:b");
  EXPECT_EQ(refusal(viewer),
            fmt::format(
                "--tls-cert {}: the certificate of CN=viewer is not for links "
                "of host b: it has URI:carillon:role:viewer, DNS:b, and a link "
                "needs URI:carillon:role:link,DNS:b: ask the owner of the CA "
                "for one with these names (docs/security.md)",
                viewer.certificate));
  EXPECT_THAT(refusal(Files("b1", "URI:carillon:role:link,DNS:a,DNS:*")),
              HasSubstr("CN=b1 is not for links of host b: it has "
                        "URI:carillon:role:link, DNS:a, DNS:*, and"));
  EXPECT_THAT(refusal(ca_->Issue({.name = "b2"})),
              HasSubstr("it has no such name, and"));
  TlsFiles others_key = far_files_;
  others_key.key = near_files_.key;
  EXPECT_THAT(refusal(others_key),
              HasSubstr("is not the key of the certificate in"));
}

TEST_P(LinksTest, AnotherHostsCertificateOpensNoLink) {
  StartFar();
  LinkOptions c = NearOptions();
  c.self.host = "c";
  StartNear(far_->address(), c, Files("c", "URI:carillon:role:link,DNS:c"));
  ExpectNearError(fmt::format(
      "host b refuses the link: {} is where host b waits for host a: the "
      "certificate of CN=c is of c, and not of host 'a': is the address "
      "another host's, or the port another link's? If not, ask the owner of "
      "the CA for one with DNS:a",
      far_->address()));
  ExpectFarError("127.0.0.1: " + far_->address() + " is where host b waits");
}

// One certificate for all hosts: only what they say tells them apart.
TEST_P(LinksTest, CrossedLinksNameWhoIsWhere) {
  const TlsFiles all = Files("all", "URI:carillon:role:link,DNS:a,DNS:b,DNS:c");
  StartFar(FarOptions(), all);
  LinkOptions other = NearOptions();
  other.self.host = "c";
  StartNear(far_->address(), other, all);
  ExpectNearError(fmt::format(
      "host b refuses the link: {} is where host b waits for host a: the other "
      "end is of host 'c', and 'a' is expected: is the address another "
      "host's, or the port another link's?",
      far_->address()));
  ExpectFarError("the other end is of host 'c', and 'a' is expected");
  // An address that another machine has.
  const auto link =
      FarLink::Start({all, "192.0.2.1:0", FarOptions(), engine_}, &gpu_);
  EXPECT_EQ(link.status().message(),
            "192.0.2.1:0: no address of this machine: is it another host's?");
  // One that another program has.
  const auto second =
      FarLink::Start({all, far_->address(), FarOptions(), engine_}, &gpu_);
  EXPECT_EQ(second.status().message(),
            far_->address() +
                ": Address already in use: host b is to wait there for host a: "
                "end the other program (ss -ltnp names it), or give host b "
                "another address (hosts: in the topology)");
}

TEST_P(LinksTest, ANearEndSendsNothingToAFarEndWithoutTheRoleOrName) {
  {
    // linkd does not start with such a one.
    const auto viewer = TlsContext::Create(
        Files("far_viewer", "URI:carillon:role:viewer,DNS:b"));
    ASSERT_TRUE(viewer.ok()) << viewer.status();
    std::string address;
    const UniqueFd listener = ListenOnLoopback(&address);
    StartNear(address);
    UniqueFd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    TlsStream far(*viewer, TlsSide::kServer, std::move(accepted));
    ASSERT_TRUE(Eventually([&] { return far.Handshake().value_or(false); }));
    char byte;
    EXPECT_TRUE(Eventually([&] {
      const auto got = far.Read({&byte, 1});
      EXPECT_EQ(got.value_or(0), 0u) << "it sends nothing";
      return !got.ok();
    }));
    EXPECT_TRUE(Eventually([&] { return !near_->status().refusal.empty(); }));
    EXPECT_THAT(
        near_->status().refusal,
        HasSubstr(address + " answers: a link needs the role link, which the "
                            "certificate of CN=far_viewer does not carry"));
    near_.reset();
  }
  // Its subject is called d, which is no name that counts.
  StartFar(FarOptions(), Files("d", "URI:carillon:role:link,DNS:b"));
  LinkOptions near = NearOptions();
  near.peer = "d";
  StartNear(far_->address(), near);
  ExpectNearError(far_->address() +
                  " answers: the certificate of CN=d is of b, and not of host "
                  "'d': is the address another host's");
  EXPECT_EQ(far_->status().connections, 0u);
}

TEST_P(LinksTest, AnotherCaOpensNoLink) {
  const TestCa stranger(testing::TempDir(), "stranger");
  TlsFiles foreign = stranger.Issue(
      {.name = "a", .alternative_names = "URI:carillon:role:link,DNS:a"});
  StartFar();
  // Who does not believe the far end.
  StartNear(far_->address(), NearOptions(), foreign);
  const auto does_not_do = [](const TlsFiles& mine) {
    return fmt::format(
        ": it is of no CA in {}; both hosts need certificates of one CA",
        mine.ca);
  };
  const auto not_taken = [](const TlsFiles& mine) {
    return fmt::format(
        "the other end does not take this end's certificate, {}: tlsv1 alert "
        "unknown ca; both hosts need certificates of one CA",
        mine.certificate);
  };
  ExpectNearError(far_->address() +
                  ": the other end's certificate does not do: ");
  ExpectNearError(does_not_do(foreign));
  ExpectFarError(not_taken(far_files_));
  near_.reset();
  // Whom the far end does not believe.
  foreign.ca = ca_->file();
  StartNear(far_->address(), NearOptions(), foreign);
  ExpectFarError("the other end's certificate does not do: ");
  ExpectFarError(does_not_do(far_files_));
  ExpectNearError(far_->address() + ": " + not_taken(foreign));
  EXPECT_EQ(near_->status().refusal, near_->status().error);
  EXPECT_EQ(far_->status().refusal, "127.0.0.1: " + far_->status().error);
}

TEST_P(LinksTest, AnExpiredCertificateOpensNoLink) {
  const TlsFiles old =
      ca_->Issue({.name = "old",
                  .alternative_names = "URI:carillon:role:link,DNS:a",
                  .ends = "20210101000000Z"});
  const auto near =
      NearLink::Start({old, "127.0.0.1:1", NearOptions()}, &device_);
  EXPECT_THAT(std::string(near.status().message()),
              HasSubstr("expired on Jan  1 00:00:00 2021 GMT: the CA's owner "
                        "makes another one (docs/security.md)"));
  StartFar();
  RawClient client(far_->address(), &old);
  client.Send("a HELLO, perhaps");
  EXPECT_EQ(client.ReadRefusal(), "");
  ExpectFarError(
      "the other end's certificate does not do: certificate has expired");
}

TEST_P(LinksTest, NoCertificateOrAnOlderTlsOpensNoLink) {
  StartFar();
  {
    RawClient client(far_->address(), nullptr);
    EXPECT_EQ(client.ReadRefusal(), "");
    ExpectFarError("peer did not return a certificate");
  }
  RawClient client(far_->address(), &near_files_, TLS1_2_VERSION);
  EXPECT_EQ(client.ReadRefusal(), "");
  ExpectFarError("unsupported protocol");
}

TEST_P(LinksTest, AnotherBuildOrCatalogueIsNamed) {
  StartFar();
  LinkOptions other = NearOptions();
  other.self.build = "2";
  StartNear(far_->address(), other);
  ExpectNearError(
      "host b refuses the link: the other end is of build '2', and '1' is "
      "expected: install the same Carillon on both hosts");
  near_.reset();
  other = NearOptions();
  other.self.catalogue = "others";
  StartNear(far_->address(), other);
  ExpectNearError("is of catalogue of kernels 'others', and 'kernels' is");
  EXPECT_FALSE(near_->status().lost) << "another build may come";
}

TEST_P(LinksTest, AnAddressThatIsNobodysIsNamed) {
  std::string address;
  ListenOnLoopback(&address).reset();
  StartNear(address);
  ExpectNearError(address + ": Connection refused");
  const auto link =
      NearLink::Start({near_files_, "b.example:4711", NearOptions()}, &device_);
  EXPECT_EQ(link.status().code(), absl::StatusCode::kInvalidArgument);
}

// Connections to `address` of which nothing has been answered (state 02 of
// /proc/net/tcp).
int UnansweredDials(const std::string& address) {
  const int port = std::stoi(address.substr(address.find(':') + 1));
  const std::string wanted = fmt::format(" 0100007F:{:04X} 02 ", port);
  std::ifstream connections("/proc/net/tcp");
  int found = 0;
  for (std::string line; std::getline(connections, line);) {
    found += line.find(wanted) != line.npos ? 1 : 0;
  }
  return found;
}

// Linux sends a lost SYN again after 1, 2 and 4 s: a network that is there again
// is found by one that was sent meanwhile.
TEST_P(LinksTest, DialsAgainBesideADialThatNobodyAnswers) {
  std::string address;
  const UniqueFd listener = ListenOnLoopback(&address);
  // With a full queue it drops what comes.
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const UniqueFd queued = DialLoopback(address);
  StartNear(address);
  EXPECT_TRUE(Eventually([&] { return UnansweredDials(address) >= 3; }))
      << UnansweredDials(address);
}

TEST_P(LinksTest, GarbageCostsItsConnectionOnly) {
  StartFar();
  const UniqueFd plain = DialLoopback(far_->address());
  send(plain.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  ExpectFarError("no agreement on TLS 1.3: ");
  {
    RawClient client(far_->address(), &near_files_);
    client.Send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.ReadRefusal(),
              "a frame says that it has 542393671 bytes: at most 65536");
  }
  {
    RawClient client(far_->address(), &near_files_);
    std::string ping;
    AppendFrame(Ping{}, &ping);
    client.Send(ping);
    EXPECT_EQ(client.ReadRefusal(), "PING comes before HELLO");
  }
  // Nobody has had a link, and nobody is kept out.
  StartNear(far_->address());
  EXPECT_TRUE(RunUpTo(10));
  ExpectEachRanOnce(10);
}

TEST_P(FramesOverTlsTest, GarbageInALinkEndsItAndSaysWhy) {
  StartFar();
  RawClient client(far_->address(), &near_files_);
  std::string bytes;
  AppendFrame(NearOptions().self, &bytes);
  AppendFrame(Close{RingId(1)}, &bytes);
  AppendFrame(Events{RingId(1), Sequence(1), Sequence(0), {"x"}}, &bytes);
  client.Send(bytes);
  EXPECT_EQ(client.ReadRefusal(),
            "the near end sends events of ring 1, which is not there");
  // It may not come again as the same.
  auto again = NearLink::Start(
      {near_files_, far_->address(), NearOptions(), engine_}, &device_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(Eventually([&] { return (*again)->status().lost; }));
  EXPECT_EQ(device_.lost(),
            "host b refuses the link: host a of incarnation 1 has broken a "
            "rule: the near end sends events of ring 1, which is not there");
}

TEST_P(LinksTest, ALinkWhoseConnectionIsCutGoesOnWhereItWas) {
  StartFar();
  uint64_t events = 0;
  for (int cut = 0; cut < 5; ++cut) {
    near_.reset();
    relay_ = std::make_unique<TcpRelay>(far_->address());
    auto link = NearLink::Start(
        {near_files_, relay_->address(), NearOptions(), engine_}, &device_);
    ASSERT_TRUE(link.ok()) << link.status();
    near_ = *std::move(link);
    near_->With([&](NearEnd& end) {
      ASSERT_TRUE(
          end.AddRing(kRing, kLimits, Sequence(events), Sequence(events)).ok());
    });
    ASSERT_TRUE(RunUpTo(events += 50));
    relay_->Cut();
    EXPECT_TRUE(Eventually([&] { return near_->status().downs == 1; }));
    ASSERT_TRUE(RunUpTo(events += 50));
    EXPECT_EQ(near_->status().connections, 2u);
  }
  ExpectEachRanOnce(events);
}

// It holds its end's lock, and with it the thread: the process is as if stopped.
TEST_P(LinksTest, AnEndThatStopsIsCutByTheOtherAndGoesOnWhereItWas) {
  const LinkTimes patient = {.ping = 20 * kMs, .timeout = 600'000 * kMs};
  LinkTimes quick = patient;
  quick.timeout = 400 * kMs;
  for (const bool near_stops : {true, false}) {
    LinkOptions near = NearOptions();
    LinkOptions far = FarOptions();
    near.times = near_stops ? patient : quick;
    far.times = near_stops ? quick : patient;
    device_.Restart();
    gpu_.Restart();
    StartFar(far);
    StartNear(far_->address(), near);
    ASSERT_TRUE(RunUpTo(100));
    const auto is_cut = [&] {
      return (near_stops ? far_->status() : near_->status()).error ==
             "nothing came for 400ms";
    };
    if (near_stops) {
      near_->With([&](NearEnd&) { EXPECT_TRUE(Eventually(is_cut)); });
    } else {
      far_->With([&](FarEnd&) { EXPECT_TRUE(Eventually(is_cut)); });
    }
    EXPECT_TRUE(RunUpTo(200));
    ExpectEachRanOnce(200);
    EXPECT_GE(near_->status().connections, 2u);
    near_.reset();
    far_.reset();
  }
}

TEST_P(LinksTest, AnotherEngineIsNamed) {
  StartFar();
  engine_ = engine_ == Engine::kTls ? Engine::kUcx : Engine::kTls;
  StartNear(far_->address());
  ExpectNearError(fmt::format(
      "host b refuses the link: the other end's engine is '{}', and '{}' is "
      "expected: say the same in mesh: engine on both hosts",
      NameOf(engine_), NameOf(GetParam())));
}

// A near end that has a certificate and a ticket, and keeps no other rule.
TEST_P(FramesByUcxTest, GarbageInALinkEndsItAndSaysWhy) {
  StartFar();
  auto context = TlsContext::Create(near_files_);
  ASSERT_TRUE(context.ok());
  UniqueFd socket = DialLoopback(far_->address());
  ASSERT_EQ(fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
  TlsStream tls(*context, TlsSide::kClient, std::move(socket));
  ASSERT_TRUE(Eventually([&] { return tls.Handshake().value_or(false); }));
  auto library = UcxContext::Create();
  ASSERT_TRUE(library.ok()) << library.status();
  auto ucx = UcxStream::Create(*library, UcxSide::kNear);
  ASSERT_TRUE(ucx.ok()) << ucx.status();
  std::string bytes;
  AppendFrame(Meet{"", (*ucx)->address()}, &bytes);
  ASSERT_EQ(tls.Write(bytes).value_or(0), bytes.size());
  FrameDecoder decoder;
  std::vector<char> buffer(64 << 10);
  std::optional<Frame> heard;
  const auto hears = [&](LinkStream& stream) {
    heard.reset();
    return Eventually([&] {
      const auto got = stream.Read(buffer);
      if (!got.ok()) ADD_FAILURE() << got.status();
      if (!got.ok()) return true;
      decoder.Append({buffer.data(), *got});
      heard = decoder.Next().value_or(std::nullopt);
      return heard.has_value();
    });
  };
  ASSERT_TRUE(hears(tls));
  const Meet* const meet = heard ? std::get_if<Meet>(&*heard) : nullptr;
  ASSERT_NE(meet, nullptr);
  ASSERT_TRUE((*ucx)->Connect(meet->ticket, meet->address, &tls).ok());
  bytes.clear();
  AppendFrame(NearOptions().self, &bytes);
  AppendFrame(Close{RingId(1)}, &bytes);
  AppendFrame(Events{RingId(1), Sequence(1), Sequence(0), {"x"}}, &bytes);
  ASSERT_EQ((*ucx)->Write(bytes).value_or(0), bytes.size());
  const Refusal* refusal = nullptr;
  while (refusal == nullptr && hears(**ucx) && heard) {
    refusal = std::get_if<Refusal>(&*heard);
  }
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->why,
            "the near end sends events of ring 1, which is not there");
}

TEST_P(LinksTest, APeerThatSaysNothingKeepsNobodyOut) {
  StartFar();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 40; ++i)
    strangers.push_back(DialLoopback(far_->address()));
  StartNear(far_->address());
  EXPECT_TRUE(RunUpTo(10));
}

TEST_P(FramesOverTlsTest, StrangersPushNobodyOutWhoseCertificateHasDone) {
  StartFar();
  auto context = TlsContext::Create(near_files_);
  ASSERT_TRUE(context.ok()) << context.status();
  TlsStream tls(*context, TlsSide::kClient, DialLoopback(far_->address()));
  ASSERT_TRUE(Eventually([&] { return tls.Handshake().value_or(false); }));
  const auto wait_for_end = [](const UniqueFd& fd) {
    char byte;
    return recv(fd.get(), &byte, 1, 0) <= 0;
  };
  // The far end has seen the certificate when it is through with who came later.
  const UniqueFd later = DialLoopback(far_->address());
  send(later.get(), "x", 1, MSG_NOSIGNAL);
  shutdown(later.get(), SHUT_WR);
  ASSERT_TRUE(wait_for_end(later));
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(DialLoopback(far_->address()));
  }
  ASSERT_TRUE(wait_for_end(strangers[0]));
  std::string hello;
  AppendFrame(NearOptions().self, &hello);
  ASSERT_EQ(tls.Write(hello).value_or(0), hello.size());
  EXPECT_TRUE(Eventually([&] { return far_->status().up; }));
}

TEST_P(LinksTest, AFarEndThatSpeaksNoTlsIsNamed) {
  std::string address;
  const UniqueFd listener = ListenOnLoopback(&address);
  StartNear(address);
  const UniqueFd near(accept(listener.get(), nullptr, nullptr));
  send(near.get(), "220 mail.example ESMTP\r\n", 24, MSG_NOSIGNAL);
  ExpectNearError(address +
                  ": no agreement on TLS 1.3: wrong version number; is another "
                  "program there?");
}

}  // namespace
}  // namespace carillon::mesh
