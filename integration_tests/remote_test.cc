// Two testbeds, and a link between them: devices of one have events run by the
// gpud of the other, whatever happens to the link and to each process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/tcp_relay.h"
#include "base/testing/test_ca.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Process;
using testing::Testbed;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class RemoteTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(shm::FlightRecorder::kVariable, "262144", 1);
    files_ = std::make_unique<TempDirectory>(*TempDirectory::Make());
    TestCa ca(files_->path());
    near_files_ = ca.Issue({.name = "a",
                            .alternative_names = "URI:carillon:role:link,"
                                                 "DNS:a"});
    far_files_ = ca.Issue({.name = "b",
                           .alternative_names = "URI:carillon:role:link,"
                                                "DNS:b"});
    viewer_files_ = ca.IssueRole("viewer");
  }
  static void TearDownTestSuite() { files_.reset(); }

  void SetUp() override {
    auto b = Testbed::Start(far_flags_);
    ASSERT_TRUE(b.ok()) << Message(b.status());
    b_ = *std::move(b);
    ASSERT_NO_FATAL_FAILURE(StartLinkd("127.0.0.1:0"));
    const std::string said = linkd_->output();
    const size_t at = said.find("127.0.0.1:");
    linkd_address_ = said.substr(at, said.find('\n', at) - at);
    relay_ = std::make_unique<TcpRelay>(linkd_address_);
    auto a = Testbed::Start(NearFlags());
    ASSERT_TRUE(a.ok()) << Message(a.status());
    a_ = *std::move(a);
  }

  void StartLinkd(const std::string& address) {
    auto linkd = b_->StartDevice(
        "linkd", "devices/link/linkd",
        {"--listen", address, "--host", "b", "--peer", "a", "--tls-cert",
         far_files_.certificate, "--tls-key", far_files_.key, "--tls-ca",
         far_files_.ca});
    ASSERT_TRUE(linkd.ok()) << Message(linkd.status());
    linkd_ = *std::move(linkd);
    ASSERT_TRUE(linkd_->WaitForOutput("serves for host a")) << linkd_->output();
  }
  std::vector<std::string> NearFlags() const {
    return {"--backend",   "remote",
            "--link",      relay_->address(),
            "--link-host", "a",
            "--link-peer", "b",
            "--link-cert", near_files_.certificate,
            "--link-key",  near_files_.key,
            "--link-ca",   near_files_.ca};
  }

  // Rings so many events, and judges each answer.
  std::unique_ptr<Process> StartEcho(int events) {
    auto echo = a_->StartDevice(
        "echo0", "integration_tests/echo_device",
        {"--events", std::to_string(events), "--resume-within", "60"});
    EXPECT_TRUE(echo.ok()) << Message(echo.status());
    return echo.ok() ? *std::move(echo) : nullptr;
  }
  // Waits until the device has taken more events than it had.
  ::testing::AssertionResult GoesOn(uint64_t events = 200) {
    const uint64_t before = a_->Counter("echo0", "taken");
    return Eventually([&] {
             return a_->Counter("echo0", "taken") >= before + events;
           })
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure()
                     << "nothing ends any more after event " << before;
  }
  // By the recorders of a testbed, so many events have been rung there, and each
  // has ended once.
  static void ExpectEachEndedOnce(const Testbed& testbed, uint64_t events) {
    std::vector<std::string> unreadable;
    const auto recordings = shm::ReadFlightRecordings(
        testbed.paths().recorder_directory(), &unreadable);
    EXPECT_THAT(unreadable, IsEmpty());
    const ledger::Report report = ledger::Check(recordings);
    for (const auto& violation : report.violations) {
      ADD_FAILURE() << violation.sentence;
    }
    EXPECT_EQ(ledger::VerdictName(report.verdict()), "ok");
    EXPECT_EQ(report.total.ok, events);
    EXPECT_EQ(report.total.failed, 0u);
    EXPECT_EQ(report.total.indeterminate(), 0u);
  }
  void ExpectEnds(Process& echo, int events) {
    EXPECT_EQ(echo.Wait(), 0) << echo.output();
    EXPECT_THAT(echo.output(),
                HasSubstr(fmt::format("taken {}, failed 0", events)));
    ExpectEachEndedOnce(*a_, static_cast<uint64_t>(events));
  }

  static std::unique_ptr<TempDirectory> files_;
  static TlsFiles near_files_;
  static TlsFiles far_files_;
  static TlsFiles viewer_files_;
  const std::vector<std::string> far_flags_ = {"--backend", "cpu", "--workers",
                                               "1"};
  std::unique_ptr<Testbed> b_;
  std::unique_ptr<Process> linkd_;
  std::string linkd_address_;
  std::unique_ptr<TcpRelay> relay_;
  std::unique_ptr<Testbed> a_;
};
std::unique_ptr<TempDirectory> RemoteTest::files_;
TlsFiles RemoteTest::near_files_;
TlsFiles RemoteTest::far_files_;
TlsFiles RemoteTest::viewer_files_;

TEST_F(RemoteTest, ADeviceHasItsEventsRunOnAnotherHost) {
  auto sensor = a_->StartDevice("sensor0", "devices/example/sensor");
  ASSERT_TRUE(sensor.ok()) << Message(sensor.status());
  EXPECT_EQ((*sensor)->Wait(), 0) << (*sensor)->output();
  EXPECT_THAT((*sensor)->output(), HasSubstr("1000 events, all checksums"));

  const auto here = a_->Status();
  EXPECT_EQ(here.backend(), "remote");
  EXPECT_THAT(here.backend_description(),
              AllOf(HasSubstr("by link to b"), HasSubstr("up")));
  EXPECT_EQ(here.events().done(), 1000u);
  EXPECT_EQ(b_->Status().events().done(), 1000u);
  ExpectEachEndedOnce(*a_, 1000);
  ExpectEachEndedOnce(*b_, 1000);
}

}  // namespace
}  // namespace carillon
