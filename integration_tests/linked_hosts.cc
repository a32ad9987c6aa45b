#include "integration_tests/linked_hosts.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "devices/sdk/edge.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::testing {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<TempDirectory> LinkedHostsTest::files_;
TlsFiles LinkedHostsTest::near_files_;
TlsFiles LinkedHostsTest::far_files_;

void LinkedHostsTest::SetUpTestSuite() {
  setenv(shm::FlightRecorder::kVariable, "262144", 1);
  files_ = std::make_unique<TempDirectory>(*TempDirectory::Make());
  const TestCa ca(files_->path());
  near_files_ = ca.Issue(
      {.name = "a", .alternative_names = "URI:carillon:role:link,DNS:a"});
  far_files_ = ca.Issue(
      {.name = "b", .alternative_names = "URI:carillon:role:link,DNS:b"});
}

void LinkedHostsTest::StartHostB(const std::string& listen) {
  auto b = Testbed::Start(far_flags_);
  ASSERT_TRUE(b.ok()) << Message(b.status());
  b_ = *std::move(b);
  ASSERT_NO_FATAL_FAILURE(StartLinkd(listen));
  const std::string host = listen.substr(0, listen.find(':') + 1);
  const std::string said = linkd_->output();
  const size_t at = said.find(host);
  ASSERT_NE(at, said.npos) << said;
  linkd_address_ = said.substr(at, said.find('\n', at) - at);
}

void LinkedHostsTest::StartLinkd(const std::string& listen) {
  auto linkd =
      b_->StartDevice("linkd", "devices/link/linkd",
                      {"--listen", listen, "--host", "b", "--peer", "a",
                       "--tls-cert", far_files_.certificate, "--tls-key",
                       far_files_.key, "--tls-ca", far_files_.ca, "--lease",
                       far_lease_s_, "--engine", engine_, "--trusted"});
  ASSERT_TRUE(linkd.ok()) << Message(linkd.status());
  linkd_ = *std::move(linkd);
  ASSERT_TRUE(linkd_->WaitForOutput("serves for host a")) << linkd_->output();
}

void LinkedHostsTest::StartHostA(const std::string& link) {
  link_ = link;
  auto a = Testbed::Start(NearFlags());
  ASSERT_TRUE(a.ok()) << Message(a.status());
  a_ = *std::move(a);
}

std::vector<std::string> LinkedHostsTest::NearFlags() const {
  return {"--backend",     "remote",
          "--link",        link_,
          "--link-host",   "a",
          "--link-peer",   "b",
          "--link-cert",   near_files_.certificate,
          "--link-key",    near_files_.key,
          "--link-ca",     near_files_.ca,
          "--link-lease",  lease_s_,
          "--link-engine", engine_,
          "--link-trusted"};
}

ledger::Report LinkedHostsTest::Check(const Testbed& testbed) {
  std::vector<std::string> unreadable;
  const auto recordings = shm::ReadFlightRecordings(
      testbed.paths().recorder_directory(), &unreadable);
  EXPECT_THAT(unreadable, IsEmpty());
  return ledger::Check(recordings);
}

void LinkedHostsTest::ExpectEachEndedOnce(const Testbed& testbed,
                                          uint64_t events) {
  const ledger::Report report = Check(testbed);
  for (const auto& violation : report.violations) {
    ADD_FAILURE() << violation.sentence;
  }
  EXPECT_EQ(ledger::VerdictName(report.verdict()), "ok");
  EXPECT_EQ(report.total.ok, events);
  EXPECT_EQ(report.total.failed, 0u);
  EXPECT_EQ(report.total.indeterminate(), 0u);
}

LinkedHostsTest::LinkLostRecords LinkedHostsTest::CountLinkLost(
    const Testbed& testbed) {
  LinkLostRecords counts;
  std::vector<std::string> unreadable;
  for (const auto& recording : shm::ReadFlightRecordings(
           testbed.paths().recorder_directory(), &unreadable)) {
    for (const shm::FlightRecord& record : recording.records) {
      if (record.step == shm::Step::kSessionEnded) {
        counts.sessions +=
            record.status == static_cast<uint32_t>(shm::CloseReason::kLinkLost);
      }
      if (record.step != shm::Step::kEnded ||
          record.state != shm::EventState::kAborted) {
        continue;
      }
      ++counts.events;
      EXPECT_EQ(record.status,
                static_cast<uint32_t>(shm::EventStatus::kLinkLost))
          << recording.name;
    }
  }
  return counts;
}

void LinkedHostsTest::ExpectALostLinkIsTheReasonOnBothHosts(
    const std::function<void()>& lose) {
  constexpr uint32_t kEvents = 32;
  auto device = edge::Device::Attach(
      {.testbed_directory = a_->directory(), .name = "slow0", .kind = "test"});
  ASSERT_TRUE(device.ok()) << Message(device.status());
  // All of them take many times the lease.
  auto queue = edge::edgeRegisterEvent(
      **device, {.kernel = "busy",
                 .max_in_flight = kEvents,
                 .parameters = {edge::Constant("iterations", 400'000'000)}});
  ASSERT_TRUE(queue.ok()) << Message(queue.status());
  for (uint32_t i = 0; i < kEvents; ++i) (*queue)->Commit();
  (*queue)->RingCommitted();
  ASSERT_TRUE(Eventually([&] { return b_->Status().events().done() > 0; }));
  lose();

  EXPECT_THAT(Message((*device)->WaitForEnd(kBound)),
              HasSubstr("LINK_LOST: gpud"));
  uint32_t aborted = 0;
  uint32_t ended = 0;
  while (const auto done = (*queue)->Poll()) {
    ++ended;
    if (done->state == shm::EventState::kAborted) {
      ++aborted;
      EXPECT_EQ(done->status,
                static_cast<uint32_t>(shm::EventStatus::kLinkLost));
    }
    (*queue)->Free();
  }
  EXPECT_EQ(ended, kEvents);
  EXPECT_GT(aborted, 0u);
  EXPECT_TRUE(a_->gpud().WaitForOutput(
      "device 'slow0' (pid " + std::to_string(getpid()) +
      ") is gone: its link carries it no more: host b was not heard"));
  EXPECT_TRUE(b_->gpud().WaitForOutput("is gone: its link carries it no more"));
  const LinkLostRecords near = CountLinkLost(*a_);
  EXPECT_EQ(near.sessions, 1u);
  EXPECT_EQ(near.events, aborted);
  const LinkLostRecords far = CountLinkLost(*b_);
  EXPECT_EQ(far.sessions, 1u);
  EXPECT_GT(far.events, 0u);
  for (const Testbed* testbed : {a_.get(), b_.get()}) {
    EXPECT_THAT(Check(*testbed).violations, IsEmpty());
  }
}

}  // namespace carillon::testing
