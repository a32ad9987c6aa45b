// Two testbeds, and a link between them: devices of one have events run by the
// gpud of the other, whatever happens to the link and to each process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/incarnation/incarnation.h"
#include "base/mutex.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/tcp_relay.h"
#include "base/testing/test_ca.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/linked_hosts.h"
#include "integration_tests/testbed_process.h"
#include "mesh/near_link.h"
#include "proto/link.pb.h"
#include "shm/faults/board.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Message;
using ::testing::Not;
using testing::Process;
using testing::Testbed;

class RemoteTest : public testing::LinkedHostsTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StartHostB("127.0.0.1:0"));
    relay_ = std::make_unique<TcpRelay>(linkd_address_);
    StartHostA(relay_->address());
  }

  // Rings for a ring full of events again and again, and judges each answer.
  std::unique_ptr<Process> StartEcho() {
    auto echo = a_->StartDevice(
        "echo0", "integration_tests/echo_device",
        {"--pause", "5", "--patience", "60000", "--resume-within", "60"});
    EXPECT_TRUE(echo.ok()) << Message(echo.status());
    return echo.ok() ? *std::move(echo) : nullptr;
  }
  // Waits until the device has taken more events than it had.
  ::testing::AssertionResult GoesOn(uint64_t events = 200) {
    // Not what it shows now: while it comes back, that is 0.
    const uint64_t before = taken_;
    return Eventually([&] {
      taken_ = std::max(taken_, a_->Counter("echo0", "taken"));
      return taken_ >= before + events;
    })
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure()
                     << "nothing ends any more after event " << before;
  }
  // Has the echo device end: all its events have ended once, well. How many.
  uint64_t EndWell(Process& echo) {
    echo.Signal(SIGTERM);
    EXPECT_EQ(echo.Wait(), 0) << echo.output();
    unsigned long taken = 0;
    unsigned long failed = 1;
    const std::string output = echo.output();
    const size_t at = output.rfind("taken ");
    EXPECT_EQ(std::sscanf(output.c_str() + std::min(at, output.size()),
                          "taken %lu, failed %lu", &taken, &failed),
              2)
        << output;
    EXPECT_EQ(failed, 0u) << output;
    ExpectEachEndedOnce(*a_, taken);
    return taken;
  }

  std::unique_ptr<TcpRelay> relay_;
  uint64_t taken_ = 0;
};

TEST_F(RemoteTest, ADeviceHasItsEventsRunOnAnotherHost) {
  const auto echo =
      a_->StartDevice("echo0", "integration_tests/echo_device",
                      {"--events", "1000", "--patience", "60000"});
  ASSERT_TRUE(echo.ok()) << Message(echo.status());
  EXPECT_EQ((*echo)->Wait(), 0) << (*echo)->output();
  EXPECT_THAT((*echo)->output(), HasSubstr("taken 1000, failed 0"));

  const auto here = a_->Status();
  EXPECT_EQ(here.backend(), "remote");
  EXPECT_THAT(here.backend_description(),
              AllOf(HasSubstr("by link to b"), HasSubstr("up")));
  EXPECT_EQ(here.events().done(), 1000u);
  EXPECT_EQ(b_->Status().events().done(), 1000u);
  ExpectEachEndedOnce(*a_, 1000);
  ExpectEachEndedOnce(*b_, 1000);
}

TEST_F(RemoteTest,
       ALinkThatIsCutStalledOrSlowLosesAndDoublesAndRunsNothingTwice) {
  const auto echo = StartEcho();
  ASSERT_TRUE(GoesOn());
  relay_->CutAfter(30'000);
  relay_->Silence();
  ASSERT_TRUE(Eventually([&] { return relay_->connections() > 10; }));
  // Amid events, too.
  const auto cuts = relay_->connections();
  while (relay_->connections() < cuts + 5) ASSERT_TRUE(GoesOn(20));
  relay_->CutAfter(0);
  relay_->Delay(20);
  ASSERT_TRUE(GoesOn(100));
  relay_->Delay(0);
  const uint64_t events = EndWell(*echo);
  // What is done there was run once: nothing was registered or rung again.
  ExpectEachEndedOnce(*b_, events);
}

TEST_F(RemoteTest, ALinkdThatIsKilledLosesAndDoublesNothing) {
  const auto echo = StartEcho();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(GoesOn());
    linkd_->Kill();
    ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
  }
  EndWell(*echo);
}

class RemoteByUcxTest : public RemoteTest {
 protected:
  RemoteByUcxTest() {
    setenv("UCX_NET_DEVICES", "lo", 1);
    engine_ = "ucx";
  }
};

TEST_F(RemoteByUcxTest, ALinkThatIsCutOrStoppedLosesAndRunsNothingTwice) {
  const auto echo = StartEcho();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(GoesOn());
    const auto before = relay_->connections();
    relay_->Cut();
    ASSERT_TRUE(Eventually([&] { return relay_->connections() > before; }));
  }
  ASSERT_TRUE(GoesOn());
  const auto before = relay_->connections();
  linkd_->Signal(SIGSTOP);
  // The relay has taken the next connection, and nobody answers there.
  EXPECT_TRUE(Eventually([&] { return relay_->connections() > before; }));
  linkd_->Signal(SIGCONT);
  ASSERT_TRUE(GoesOn());
  const uint64_t events = EndWell(*echo);
  ExpectEachEndedOnce(*b_, events);
}

TEST_F(RemoteByUcxTest, WhoeverIsKilledLosesAndDoublesNothing) {
  const auto echo = StartEcho();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(GoesOn());
    linkd_->Kill();
    ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
    ASSERT_TRUE(GoesOn());
    b_->gpud().Kill();
    const auto far = b_->RestartGpud(far_flags_);
    ASSERT_TRUE(far.ok()) << Message(far);
    ASSERT_TRUE(GoesOn());
    a_->gpud().Kill();
    const auto near = a_->RestartGpud(NearFlags());
    ASSERT_TRUE(near.ok()) << Message(near);
  }
  EndWell(*echo);
}

TEST_F(RemoteByUcxTest, UcxIsForThoseWhoSayTrusted) {
  const auto linkd = b_->StartDevice(
      "linkd-x", "devices/link/linkd",
      {"--listen", "127.0.0.1:0", "--host", "b", "--peer", "a", "--tls-cert",
       far_files_.certificate, "--tls-key", far_files_.key, "--tls-ca",
       far_files_.ca, "--engine", "ucx"});
  ASSERT_TRUE(linkd.ok()) << Message(linkd.status());
  EXPECT_NE((*linkd)->Wait(), 0);
  EXPECT_THAT((*linkd)->output(),
              HasSubstr("--engine: the engine ucx sends events in plaintext"));
  auto flags = NearFlags();
  std::erase(flags, "--link-trusted");
  const auto gpud = Testbed::Start(flags);
  EXPECT_THAT(Message(gpud.status()),
              HasSubstr("--link-engine: the engine ucx sends events in"));
}

class RemoteFaultsTest : public RemoteTest {
 protected:
  RemoteFaultsTest() { far_flags_.push_back("--faults"); }
};

TEST_F(RemoteFaultsTest, WhatAKernelHasNotWrittenStaysAsItWasAfterADeath) {
  constexpr uint32_t kBytes = 16;
  auto attached = edge::Device::Attach(
      {.testbed_directory = a_->directory(), .name = "keeper", .kind = "test"});
  ASSERT_TRUE(attached.ok()) << Message(attached.status());
  edge::Device& device = **attached;
  const auto in = device.AllocateBuffer(edge::Place::kInput, kBytes);
  const auto out = device.AllocateBuffer(edge::Place::kOutput, kBytes);
  ASSERT_TRUE(in.ok() && out.ok());
  const auto queue = edge::edgeRegisterEvent(
      device, {.kernel = "echo",
               .max_in_flight = 1,
               .parameters = {edge::Fixed("in", *in, {.length = kBytes}),
                              edge::Fixed("out", *out, {.length = kBytes})}});
  ASSERT_TRUE(queue.ok()) << Message(queue.status());
  const auto run = [&] {
    (*queue)->RingDoorbell();
    const auto end = (*queue)->Wait(testing::kBound);
    EXPECT_TRUE(end.ok()) << Message(end.status());
    (*queue)->Free();
    return *end;
  };
  const auto output = [&] {
    return std::string(reinterpret_cast<const char*>(out->bytes.data()),
                       kBytes);
  };
  std::memcpy(in->bytes.data(), "the first event.", kBytes);
  EXPECT_EQ(run().state, shm::EventState::kDone);
  ASSERT_EQ(output(), "the first event.");

  // The next linkd's memory begins as zeros, and no kernel writes to it.
  linkd_->Kill();
  ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
  const auto board = faults::Board::Open(b_->paths().fault_board());
  ASSERT_TRUE(board.ok()) << Message(board.status());
  const faults::Fault fault = {.name = "f",
                               .process = "gpud",
                               .device = "keeper",
                               .point = faults::Point::kGpudKernel,
                               .action = faults::Action::kFail};
  ASSERT_TRUE((*board)->Inject({&fault, 1}).ok());
  std::memcpy(in->bytes.data(), "the second event", kBytes);
  const edge::Completion failed = run();
  EXPECT_EQ(failed.state, shm::EventState::kFailed);
  EXPECT_EQ(failed.status,
            static_cast<uint32_t>(shm::EventStatus::kKernelFault));
  EXPECT_EQ(output(), "the first event.");
  EXPECT_EQ(run().state, shm::EventState::kDone);
  EXPECT_EQ(output(), "the second event");
}

TEST_F(RemoteTest, AGpudOfTheGpusHostThatIsKilledLosesAndDoublesNothing) {
  const auto echo = StartEcho();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(GoesOn());
    b_->gpud().Kill();
    const auto restarted = b_->RestartGpud(far_flags_);
    ASSERT_TRUE(restarted.ok()) << Message(restarted);
  }
  EndWell(*echo);
}

TEST_F(RemoteTest, WhatIsRefusedForTheMomentIsRungOnceItIsTaken) {
  const auto echo = StartEcho();
  const auto waits_because = [&](const std::string& why) {
    return Eventually([&] {
      const std::string said = a_->Status().backend_description();
      return said.find("device 'echo0' waits") != std::string::npos &&
             said.find(why) != std::string::npos;
    });
  };
  ASSERT_TRUE(GoesOn());
  b_->gpud().Kill();
  EXPECT_TRUE(waits_because("gpud of host b is away"));
  linkd_->Kill();
  ASSERT_TRUE(b_->RestartGpud(far_flags_).ok());
  // Its name there is another's for a while, as a session that has not ended.
  auto other = edge::Device::Attach(
      {.testbed_directory = b_->directory(), .name = "echo0", .kind = "test"});
  ASSERT_TRUE(other.ok()) << Message(other.status());
  ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
  EXPECT_TRUE(waits_because("does not take ring"));
  other->reset();
  ASSERT_TRUE(GoesOn());
  EXPECT_THAT(a_->Status().backend_description(), Not(HasSubstr("waits")));
  EndWell(*echo);
}

TEST_F(RemoteTest, AGpudOfTheDevicesHostThatIsKilledLosesAndDoublesNothing) {
  const auto echo = StartEcho();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(GoesOn());
    a_->gpud().Kill();
    const auto restarted = a_->RestartGpud(NearFlags());
    ASSERT_TRUE(restarted.ok()) << Message(restarted);
  }
  EndWell(*echo);
}

TEST_F(RemoteTest, AClockThatGoesBackKeepsNoGpudAndNoLinkdOut) {
  const auto echo = StartEcho();
  ASSERT_TRUE(GoesOn());
  // Those before them had a clock that was an hour ahead.
  const auto next_of = [](const Testbed& testbed, uint64_t now) {
    return NextIncarnation(
               fmt::format("{}/{}", testbed.directory(), kIncarnationFile), now)
        .value_or(0);
  };
  const uint64_t ahead =
      static_cast<uint64_t>(time(nullptr) + 3600) * 1'000'000'000;
  EXPECT_EQ(next_of(*a_, ahead), ahead);
  EXPECT_EQ(next_of(*b_, ahead), ahead);
  for (int i = 0; i < 2; ++i) {
    a_->gpud().Kill();
    const auto restarted = a_->RestartGpud(NearFlags());
    ASSERT_TRUE(restarted.ok()) << Message(restarted);
    ASSERT_TRUE(GoesOn());
    linkd_->Kill();
    ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
    ASSERT_TRUE(GoesOn());
  }
  EndWell(*echo);
  // Each of the two has said a number of its own that follows.
  EXPECT_EQ(next_of(*a_, 0), ahead + 3 * kIncarnationRoom);
  EXPECT_EQ(next_of(*b_, 0), ahead + 3 * kIncarnationRoom);
}

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// CARILLON_LINK_KILLS=1000 is a soak: seven or so a pair of testbeds, and each
// pair's events are counted at its end. CARILLON_LINK_SEED draws others.
TEST_F(RemoteTest, SeededKillsAndCutsLoseAndDoubleNothing) {
  constexpr uint64_t kAPair = 7;
  constexpr const char* kNames[] = {
      "cut",   "cut amid bytes", "silence",
      "linkd", "gpud of host b", "gpud of host a"};
  const uint64_t wanted = NumberFrom("CARILLON_LINK_KILLS", kAPair);
  std::mt19937_64 random(NumberFrom("CARILLON_LINK_SEED", 1));
  std::map<std::string, std::vector<double>> took_ms;
  uint64_t events = 0;
  for (uint64_t done = 0; done < wanted;) {
    if (done > 0) {
      a_.reset();
      relay_.reset();
      linkd_.reset();
      ASSERT_NO_FATAL_FAILURE(SetUp());
      taken_ = 0;
    }
    const auto echo = StartEcho();
    ASSERT_NE(echo, nullptr);
    ASSERT_TRUE(GoesOn(50));
    for (uint64_t i = 0; i < kAPair && done < wanted; ++i, ++done) {
      const uint64_t what = random() % std::size(kNames);
      // Not at the same step each time.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      SCOPED_TRACE(fmt::format("number {}: {}", done + 1, kNames[what]));
      const Nanoseconds begin = NowNs();
      const uint64_t before = relay_->connections();
      const auto connects = [&](uint64_t times) {
        return Eventually(
            [&] { return relay_->connections() >= before + times; });
      };
      switch (what) {
        case 0:
          relay_->Cut(true);
          std::this_thread::sleep_for(
              std::chrono::milliseconds(random() % 200));
          relay_->Cut(false);
          ASSERT_TRUE(connects(1));
          break;
        case 1:
          relay_->CutAfter(1 + static_cast<uint32_t>(random() % 20'000));
          relay_->Cut(true);
          relay_->Cut(false);
          ASSERT_TRUE(connects(3));
          relay_->CutAfter(0);
          break;
        case 2:
          relay_->Silence();
          ASSERT_TRUE(connects(1));
          break;
        case 3:
          linkd_->Kill();
          ASSERT_NO_FATAL_FAILURE(StartLinkd(linkd_address_));
          break;
        case 4: {
          b_->gpud().Kill();
          const auto restarted = b_->RestartGpud(far_flags_);
          ASSERT_TRUE(restarted.ok()) << Message(restarted);
          break;
        }
        default: {
          a_->gpud().Kill();
          const auto restarted = a_->RestartGpud(NearFlags());
          ASSERT_TRUE(restarted.ok()) << Message(restarted);
        }
      }
      ASSERT_TRUE(GoesOn(50)) << echo->output() << linkd_->output();
      took_ms[kNames[what]].push_back(static_cast<double>(NowNs() - begin) /
                                      1e6);
    }
    events += EndWell(*echo);
    ASSERT_FALSE(HasFailure()) << "after " << done;
  }
  fmt::print("{} kills and cuts, {} events, each ended once\n", wanted, events);
  for (auto& [what, ms] : took_ms) {
    std::ranges::sort(ms);
    fmt::print(
        "{}: {}, goes on after {:.0f} ms [{:.0f} to {:.0f}], p99 {:.0f}\n",
        what, ms.size(), ms[ms.size() / 2], ms.front(), ms.back(),
        ms[ms.size() * 99 / 100]);
  }
}

TEST_F(RemoteTest, AnOldGpudIsFencedAndItsDevicesEnd) {
  const auto echo = StartEcho();
  ASSERT_TRUE(GoesOn());
  auto flags = NearFlags();
  flags[3] = linkd_address_;
  const auto newer = Testbed::Start(flags);
  ASSERT_TRUE(newer.ok()) << Message(newer.status());
  EXPECT_EQ(echo->Wait(), 4) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("LINK_LOST"));
  // All that was rung has ended: as done, or as aborted.
  const ledger::Report report = Check(*a_);
  EXPECT_THAT(report.violations, IsEmpty());
  EXPECT_GT(report.total.ok, 0u);
  EXPECT_LE(report.total.failed, 32u);  // those that were in flight
  EXPECT_TRUE(a_->gpud().WaitForOutput("this gpud has no link any more"));
  EXPECT_THAT(a_->gpud().output(), AllOf(HasSubstr("has come after the one of"),
                                         HasSubstr(", from 127.0.0.1 at 20")));
  EXPECT_TRUE(linkd_->WaitForOutput("takes the place of one of that name"));
  EXPECT_THAT(a_->Status().backend_description(), HasSubstr("down: "));
  const auto second =
      (*newer)->StartDevice("echo1", "integration_tests/echo_device",
                            {"--events", "100", "--patience", "60000"});
  ASSERT_TRUE(second.ok()) << Message(second.status());
  EXPECT_EQ((*second)->Wait(), 0) << (*second)->output();
}

class ShortLeaseTest : public RemoteTest {
 protected:
  ShortLeaseTest() { lease_s_ = far_lease_s_ = "2"; }
};

TEST_F(ShortLeaseTest, ALinkThatIsLostIsTheReasonOfItsEventsOnBothHosts) {
  ExpectALostLinkIsTheReasonOnBothHosts([&] {
    relay_->Close();
    relay_->Silence();
  });
}

class NearLosesFirstTest : public RemoteTest {
 protected:
  NearLosesFirstTest() { lease_s_ = "2"; }
};

TEST_F(NearLosesFirstTest, ALinkThatOnlyOneHostHasLostIsLostOnBoth) {
  auto device = edge::Device::Attach(
      {.testbed_directory = a_->directory(), .name = "slow0", .kind = "test"});
  ASSERT_TRUE(device.ok()) << Message(device.status());
  // Longer than the lease of host a, and than the link's next beginning.
  auto queue = edge::edgeRegisterEvent(
      **device, {.kernel = "busy",
                 .max_in_flight = 64,
                 .parameters = {edge::Constant("iterations", 400'000'000)}});
  ASSERT_TRUE(queue.ok()) << Message(queue.status());
  for (uint32_t i = 0; i < 64; ++i) (*queue)->Commit();
  (*queue)->RingCommitted();
  ASSERT_TRUE(Eventually([&] { return b_->Status().events().done() > 0; }));
  relay_->Cut(true);
  EXPECT_THAT(Message((*device)->WaitForEnd(testing::kBound)),
              HasSubstr("LINK_LOST: gpud"));
  EXPECT_THAT(b_->gpud().output(), Not(HasSubstr("is gone: its link")));

  // The next link tells host b, whose lease is long.
  relay_->Cut(false);
  ASSERT_TRUE(b_->gpud().WaitForOutput("is gone: "));
  EXPECT_THAT(b_->gpud().output(),
              HasSubstr("is gone: its link carries it no more"));
  const LinkLostRecords near = CountLinkLost(*a_);
  EXPECT_EQ(near.sessions, 1u);
  EXPECT_GT(near.events, 0u);
  const LinkLostRecords far = CountLinkLost(*b_);
  EXPECT_EQ(far.sessions, 1u);
  EXPECT_GT(far.events, 0u);
  for (const Testbed* testbed : {a_.get(), b_.get()}) {
    EXPECT_THAT(Check(*testbed).violations, IsEmpty());
  }
}

TEST_F(RemoteTest, WhatALinkDoesNotCarryIsRefusedByName) {
  using edge::Fixed;
  using edge::Place;
  auto attached = edge::Device::Attach({.testbed_directory = a_->directory(),
                                        .name = "device0",
                                        .kind = "test"});
  ASSERT_TRUE(attached.ok()) << Message(attached.status());
  edge::Device& device = **attached;
  EXPECT_THAT(Message(device.AllocateBuffer(Place::kGpuMemory, 4096).status()),
              HasSubstr("the remote back-end has no GPU memory"));
  EXPECT_THAT(Message(device.LaunchKernel({.kernel = "null"}).status()),
              HasSubstr("has no background kernels and copies"));

  const auto in = *device.AllocateBuffer(Place::kInput, 4096);
  const auto out = *device.AllocateBuffer(Place::kOutput, 4096);
  const edge::EventSpec echo{
      .kernel = "echo",
      .max_in_flight = 4,
      .parameters = {Fixed("in", in, {.length = 64, .slot_stride = 64}),
                     Fixed("out", out, {.length = 64, .slot_stride = 64})}};
  const auto refusal = [&](const edge::EventSpec& spec) {
    return Message(edgeRegisterEvent(device, spec).status());
  };
  edge::EventSpec spec = echo;
  spec.modifyable = true;
  EXPECT_THAT(refusal(spec), HasSubstr("event kernel 'echo' is modifyable"));
  spec = echo;
  spec.hands_to = "device1";
  EXPECT_THAT(refusal(spec), HasSubstr("remote back-end hands no events on"));
  spec = echo;
  spec.launch_path = "edge";
  EXPECT_THAT(refusal(spec), HasSubstr("no launch path 'edge'"));
  spec = echo;
  spec.parameters[1] = Fixed("out", out, {.length = 64, .slot_stride = 32});
  EXPECT_THAT(refusal(spec), HasSubstr("may not overlap"));
  EXPECT_EQ(refusal(echo), "");
  EXPECT_THAT(refusal(echo), HasSubstr("write to one buffer"));
}

TEST_F(RemoteTest, WhatTheOtherHostRefusesIsToldToTheDevice) {
  // Of the device's name there is one already.
  auto there = edge::Device::Attach({.testbed_directory = b_->directory(),
                                     .name = "sensor0",
                                     .kind = "test"});
  ASSERT_TRUE(there.ok()) << Message(there.status());
  auto sensor = a_->StartDevice("sensor0", "devices/example/sensor");
  ASSERT_TRUE(sensor.ok()) << Message(sensor.status());
  EXPECT_EQ((*sensor)->Wait(), 1);
  EXPECT_THAT((*sensor)->output(), AllOf(HasSubstr("host b does not take ring"),
                                         HasSubstr("sensor0")));
}

// A near end that says what a test has it say.
class AnyNearHost final : public mesh::NearHost {
 public:
  // For all rings.
  explicit AnyNearHost(std::vector<std::string> events)
      : events_(std::move(events)) {}
  void ReadEvent(mesh::RingId, shm::Sequence number, std::string* to) override {
    *to += events_.at(number.value() - 1);
  }
  bool TakeEnd(mesh::RingId, shm::Sequence, const mesh::End& end) override {
    MutexLock lock(mutex_);
    ends_.push_back(fmt::format("{} {} {}", static_cast<int>(end.state),
                                end.status, end.output.substr(0, 5)));
    return true;
  }
  void LoseRing(mesh::RingId ring, const std::string& why, bool) override {
    MutexLock lock(mutex_);
    refused_[ring] = why;
  }
  void LoseLink(const std::string& why) override {
    MutexLock lock(mutex_);
    refused_[mesh::RingId()] = why;
  }
  std::vector<std::string> ends() const {
    MutexLock lock(mutex_);
    return ends_;
  }
  std::string Refusal(mesh::RingId ring) const {
    MutexLock lock(mutex_);
    const auto found = refused_.find(ring);
    return found == refused_.end() ? "" : found->second;
  }

 private:
  const std::vector<std::string> events_;
  mutable Mutex mutex_;
  std::vector<std::string> ends_ ABSL_GUARDED_BY(mutex_);
  std::map<mesh::RingId, std::string> refused_ ABSL_GUARDED_BY(mutex_);
};

// An event of an echo whose entry names its input.
std::string EchoEvent(uint64_t offset, uint64_t length,
                      const std::string& input) {
  std::string event(16, 0);
  std::memcpy(event.data(), &offset, 8);
  std::memcpy(event.data() + 8, &length, 8);
  return event + input;
}

TEST_F(RemoteTest, LinkdTakesWhatComesForAHostileDevices) {
  constexpr uint64_t kHuge = uint64_t{1} << 63;
  const std::vector<std::string> events = {
      "",
      EchoEvent(0, 5, "four"),
      EchoEvent(0, 5, "sixsix"),
      EchoEvent(0, 65, std::string(65, 'a')),
      EchoEvent(60, 5, "hello"),
      EchoEvent(kHuge, 5, "hello"),
      EchoEvent(kHuge, kHuge, ""),
      EchoEvent(59, 5, "hello"),
  };
  auto asks = edge::Device::Attach(
      {.testbed_directory = b_->directory(), .name = "asks", .kind = "test"});
  ASSERT_TRUE(asks.ok()) << Message(asks.status());
  AnyNearHost host(events);
  const auto link = mesh::NearLink::Start(
      {.tls = near_files_,
       .address = linkd_address_,
       .link = {.self = {.testbed = "default",
                         .host = "a",
                         .build = mesh::OwnBuild(),
                         .catalogue = (*asks)->catalogue(),
                         .incarnation = std::numeric_limits<uint64_t>::max()},
                .peer = "b",
                .times = {}}},
      &host);
  ASSERT_TRUE(link.ok()) << Message(link.status());
  v1::LinkRing echo;
  echo.set_device("device0");
  echo.set_kernel("echo");
  for (auto* const dim : {echo.mutable_grid(), echo.mutable_block()}) {
    dim->set_x(1);
    dim->set_y(1);
    dim->set_z(1);
  }
  for (const bool written : {false, true}) {
    auto* const parameter = echo.add_parameters();
    parameter->set_name(written ? "out" : "in");
    parameter->mutable_buffer()->set_bytes(64);
    parameter->mutable_buffer()->set_written(written);
    parameter->mutable_buffer()->set_slot_stride(written ? 64 : 0);
    parameter->mutable_buffer()->set_in_entry(!written);
  }
  mesh::RingId id(1);
  const auto add = [&](std::string purpose, uint32_t slots = 8,
                       shm::Sequence rung = shm::Sequence(0)) {
    (*link)->With([&](mesh::NearEnd& near) {
      EXPECT_TRUE(near.AddRing(++id, {slots, 128, 64, std::move(purpose)},
                               shm::Sequence(0), rung)
                      .ok());
    });
  };
  const auto refusal = [&](std::string purpose, uint32_t slots = 8) {
    add(std::move(purpose), slots);
    EXPECT_TRUE(Eventually([&] { return !host.Refusal(id).empty(); }));
    return host.Refusal(id);
  };
  EXPECT_THAT(refusal("\xff\xff"), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(""), HasSubstr("name"));
  v1::LinkRing wrong = echo;
  wrong.set_device("linkd");
  EXPECT_THAT(refusal(wrong.SerializeAsString()), HasSubstr("is linkd itself"));
  wrong = echo;
  wrong.set_kernel("none");
  EXPECT_THAT(refusal(wrong.SerializeAsString()), HasSubstr("none"));
  for (const uint64_t bytes : {uint64_t{65}, kHuge, ~uint64_t{0}}) {
    wrong = echo;
    wrong.mutable_parameters(1)->mutable_buffer()->set_bytes(bytes);
    EXPECT_THAT(refusal(wrong.SerializeAsString()),
                HasSubstr("all of a completion may have 64"));
    wrong = echo;
    wrong.mutable_parameters(0)->mutable_buffer()->set_bytes(bytes);
    if (bytes == 65) continue;
    EXPECT_THAT(refusal(wrong.SerializeAsString()),
                HasSubstr("bytes for all slots: 1 to"));
  }
  wrong = echo;
  wrong.mutable_parameters(0)->mutable_buffer()->set_bytes(0);
  EXPECT_THAT(refusal(wrong.SerializeAsString()), HasSubstr("1 to"));
  wrong = echo;
  wrong.mutable_parameters(0)->clear_value();
  EXPECT_THAT(refusal(wrong.SerializeAsString()), HasSubstr("has no value"));

  // What is none of the kernel's events is not run, and harms no other.
  add(echo.SerializeAsString(), 8, shm::Sequence(events.size()));
  EXPECT_TRUE(Eventually([&] { return host.ends().size() == events.size(); }))
      << host.Refusal(id);
  const std::string bad =
      fmt::format("{} {} ", static_cast<int>(shm::EventState::kFailed),
                  static_cast<int>(shm::EventStatus::kBadBufferRef));
  std::vector<std::string> expected(events.size() - 1, bad);
  expected.push_back(
      fmt::format("{} 0 hello", static_cast<int>(shm::EventState::kDone)));
  EXPECT_EQ(host.ends(), expected);
  EXPECT_EQ(host.Refusal(mesh::RingId()), "");
  EXPECT_EQ(b_->Status().events().done(), 1u);
}

TEST_F(RemoteTest, AnotherCatalogueIsRefusedAndNamedByBothHosts) {
  const TempDirectory directory = *TempDirectory::Make();
  auto argv = NearFlags();
  argv[3] = linkd_address_;  // the relay has one connection at a time
  argv.insert(argv.begin(),
              {testing::Program("integration_tests/gpud_with_another_kernel"),
               "--dir", directory.path()});
  const auto gpud = Process::Start("gpud", argv);
  ASSERT_TRUE(gpud.ok()) << Message(gpud.status());
  EXPECT_EQ((*gpud)->Wait(), 1);
  const auto device = edge::Device::Attach(
      {.testbed_directory = b_->directory(), .name = "asks", .kind = "test"});
  ASSERT_TRUE(device.ok()) << Message(device.status());
  const std::string catalogue = (*device)->catalogue();
  const int kernels = std::atoi(catalogue.c_str());
  const auto sentence = AllOf(
      HasSubstr(fmt::format("the other end is of catalogue of kernels '{} "
                            "kernels, ",
                            kernels + 1)),
      HasSubstr(fmt::format("and '{}' is expected: install the same Carillon "
                            "on both hosts",
                            catalogue)));
  EXPECT_THAT((*gpud)->output(),
              AllOf(HasSubstr("--link: no link to host 'b': host b refuses the "
                              "link: "),
                    sentence, Not(HasSubstr("is linkd there?"))));
  EXPECT_TRUE(linkd_->WaitForOutput("link refused: "));
  EXPECT_THAT(linkd_->output(), sentence);
}

TEST_F(RemoteTest, ACertificateOfAnotherCaIsNamedByBothHosts) {
  const TempDirectory directory = *TempDirectory::Make();
  const TlsFiles foreign =
      TestCa(directory.path(), "other")
          .Issue({.name = "a",
                  .alternative_names = "URI:carillon:role:link,DNS:a"});
  const auto refusal = [&](const TlsFiles& files) {
    auto flags = NearFlags();
    flags[3] = linkd_address_;  // the relay has one connection at a time
    flags[9] = files.certificate;
    flags[11] = files.key;
    flags[13] = files.ca;
    return Message(Testbed::Start(flags).status());
  };
  constexpr const char* kDoesNotDo =
      "the other end's certificate does not do: ";
  constexpr const char* kOfNoCa =
      ": it is of no CA in {}; both hosts need certificates of one CA\n";
  constexpr const char* kNotTaken =
      "the other end does not take this end's certificate, {}: tlsv1 alert "
      "unknown ca; both hosts need certificates of one CA\n";
  const std::string of_a =
      fmt::format("--link: no link to host 'b': {}: ", linkd_address_);
  const std::string of_b = "link refused: 127.0.0.1: ";
  EXPECT_THAT(refusal({foreign.certificate, foreign.key, near_files_.ca}),
              HasSubstr(of_a + fmt::format(kNotTaken, foreign.certificate)));
  EXPECT_TRUE(linkd_->WaitForOutput(fmt::format(kOfNoCa, far_files_.ca)));
  EXPECT_THAT(linkd_->output(), HasSubstr(of_b + kDoesNotDo));
  EXPECT_THAT(refusal({near_files_.certificate, near_files_.key, foreign.ca}),
              AllOf(HasSubstr(of_a + kDoesNotDo),
                    HasSubstr(fmt::format(kOfNoCa, foreign.ca))));
  EXPECT_TRUE(linkd_->WaitForOutput(
      of_b + fmt::format(kNotTaken, far_files_.certificate)));
}

TEST_F(RemoteTest, AGpudWithoutALinkDoesNotStartAndSaysWhy) {
  const auto refusal = [&](const std::string& flag, const std::string& value) {
    auto flags = NearFlags();
    flags[3] = linkd_address_;  // the relay has one connection at a time
    for (size_t i = 0; i < flags.size(); i += 2) {
      if (flags[i] == flag) flags[i + 1] = value;
    }
    return Message(Testbed::Start(flags).status());
  };
  EXPECT_THAT(
      refusal("--link-peer", "c"),
      HasSubstr(
          "answers: the certificate of CN=b is of b, and not of host 'c'"));
  EXPECT_THAT(refusal("--link-ca", near_files_.key), HasSubstr("--link-ca"));
  EXPECT_THAT(refusal("--backend", "cpu"),
              HasSubstr("go with --backend remote"));
  EXPECT_THAT(Message(Testbed::Start({"--backend", "remote"}).status()),
              HasSubstr("--link: --backend remote needs it"));
  auto flags = NearFlags();
  flags.insert(flags.end(), {"--workers", "2"});
  EXPECT_THAT(Message(Testbed::Start(flags).status()),
              HasSubstr("--workers: the kernels of --backend remote"));
}

}  // namespace
}  // namespace carillon
