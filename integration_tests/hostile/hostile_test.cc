// A hostile device plays its tricks against a real gpud, one per test, while an
// honest neighbour works. The tricks are refused or cost the hostile device its
// session, for a stated reason, and nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/hostile/checksum_events.h"
#include "integration_tests/soak/resource_use.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Checksums;
using ::testing::HasSubstr;
using testing::Neighbour;
using ::testing::Not;
using testing::Process;
using testing::Testbed;

// gpud has so few descriptors that a flood can take them all.
constexpr rlim_t kDescriptors = 1024;

struct Expectation {
  std::string trick;
  std::vector<std::string> says;  // in the hostile device's output
  std::string log;                // in gpud's output; empty: nothing
  // The error for a device that comes while the hostile one holds on; empty if
  // it is served. For resources that all devices share and that may run out.
  std::string newcomer = "";
  // The log says it where CPU cores run the events, and not where a GPU does.
  bool of_cores = false;

  friend std::ostream& operator<<(std::ostream& out, const Expectation& one) {
    return out << one.trick;
  }
};

using Expectations = std::vector<Expectation>;

// An entry for every trick that `hostile_device --list` names.
const Expectations kMemory = {
    {"resize",
     {"refused: shrinking the submission", "refused: growing the completion",
      "refused: sealing the completion", "ended: 1 events done"},
     ""},
    {"write-completions",
     {"refused: mapping the completion aperture writable",
      "refused: making its mapping writable", "refused: write()",
      "refused: punching", "by its name in /proc", "ended: 1 events done"},
     ""},
    {"punch-holes", {"closed: evicted", "went back"}, "went back"},
    {"touch-ungiven",
     {"ended: 1 events done", "closed: evicted",
      "it broke the protocol: its submission aperture takes",
      "it broke the protocol: its completion aperture takes"},
     "bytes of memory, and it was given"},
    {"scribble-all",
     {"closed: evicted", "it broke the protocol: doorbell of event"},
     "it broke the protocol: doorbell of event"},
    {"scribble-entries", {"ended: "}, ""},
    {"rewrite-parameters",
     {"events done with status 0", "events failed with status 3"},
     ""},
    {"lying-lease", {"seen: silent"}, ""},
    {"lying-counters", {"seen: its counters"}, ""},
};

const Expectations kRings = {
    {"doorbell-jump", {"closed: evicted", "jumped"}, "jumped"},
    {"doorbell-one-too-many", {"closed: evicted", "jumped"}, "jumped"},
    {"doorbell-back",
     {"ended: 3 events done", "closed: evicted", "went back"},
     "went back"},
    {"doorbell-not-own",
     {"seen: 20 rings of event 0", "ended: 20 events done"},
     ""},
    {"stale-generations",
     {"ended: 5 events failed with status 1", "ended: 1 events done"},
     ""},
    {"wrong-entries",
     {"ended: 4 events failed with status 2",
      "ended: 4 events failed with status 5"},
     ""},
    {"foreign-offsets", {"ended: 9 events failed with status 3"}, ""},
    {"doorbell-storm", {"seen: 16 rings, which are always full"}, ""},
    {"slow-kernels",
     {"ended: 8 events done", "seen: 1 rings, which are always full"},
     "us of the front-end's thread, which all devices share, and may take 150: "
     "workers run it from now on",
     "",
     /*of_cores=*/true},
};

const Expectations kHandOver = {
    {"replayed-ticket",
     {"PERMISSION_DENIED: this ticket was already used"},
     "this ticket was already used"},
    {"foreign-ticket",
     {"another process's ticket: PERMISSION_DENIED"},
     "this ticket was issued to process"},
    {"foreign-session", {"another process's session: PERMISSION_DENIED"}, ""},
    {"expired-ticket",
     {"in time: PERMISSION_DENIED: this ticket has expired"},
     "did not fetch its apertures in time"},
    {"guessed-tickets",
     {"refused: 3000 guessed tickets: unknown ticket"},
     "unknown ticket"},
    {"silent-handover",
     {"refused: silent hand-over connections: process"},
     "connections that wait for a hand-over"},
    {"wrong-descriptors",
     {"refused: 253 descriptors with a request: unknown ticket",
      "refused: a short request: a hand-over request has 32 bytes, not 31",
      "refused: a long request: a hand-over request has 32 bytes, not 65536",
      "refused: a request without magic: hand-over request with magic",
      "refused: a request of another layout: the device speaks"},
     "a hand-over request has 32 bytes, not 31"},
    {"data-on-connection",
     {"closed: evicted", "data on the hand-over connection"},
     "it broke the protocol: data on the hand-over connection"},
    {"flood-connections",
     {"refused: most of 1500 connections"},
     "connections to the control socket"},
};

const Expectations kRegistrations = {
    {"foreign-names",
     {"refused: the name of another device: ALREADY_EXISTS",
      "a name of 0 bytes: INVALID_ARGUMENT",
      "another layout version: FAILED_PRECONDITION"},
     ""},
    {"grab-memory",
     {"refused: a huge submission aperture",
      "refused: GPU memory beyond gpud's: RESOURCE_EXHAUSTED"},
     "",
     "bytes"},
    {"flood-registrations",
     {"refused: one more event kernel: RESOURCE_EXHAUSTED",
      "refused: one more buffer: RESOURCE_EXHAUSTED"},
     "",
     "event kernel table"},
    {"top-priority",
     {"refused: an event kernel of priority 7: PERMISSION_DENIED: device "
      "'hostile' asks for priority 7, and gpud's operator allows 3 at most",
      "refused: a kernel of priority 4: PERMISSION_DENIED: "},
     ""},
    {"grow-storm",
     {"seen: as much after 300 buffers as after two",
      "refused: one more buffer: RESOURCE_EXHAUSTED: the buffer, for which the "
      "submission aperture of device 'hostile' would grow, needs 2097152 "
      "bytes: ",
      "for which the completion aperture of device 'hostile' would grow, ",
      "refused: a buffer that no aperture can grow to: RESOURCE_EXHAUSTED: the "
      "buffer needs 314572800 bytes in the completion aperture of device "},
     "",
     ""},
    {"absurd-registrations", {"refused: a grid of 2^96: INVALID_ARGUMENT"}, ""},
    {"foreign-events",
     {"refused: unregistering event 0: NOT_FOUND",
      "refused: scheduling more than there can be: INVALID_ARGUMENT"},
     ""},
};

const Expectations kCalls = {
    {"flood-sessions",
     {"refused: one more session: RESOURCE_EXHAUSTED: process"},
     ""},
    {"flood-calls", {"in all wait or run: the limits are 32 and 128"}, ""},
    {"steer-testbed",
     {"refused: SetPolicy: PERMISSION_DENIED: Admin.SetPolicy needs the role "
      "operator; process ",
      "refused: ResetStatistics: PERMISSION_DENIED: Admin.ResetStatistics ",
      "refused: SetTracing: PERMISSION_DENIED: Admin.SetTracing needs ",
      "refused: Drain: PERMISSION_DENIED: Admin.Drain needs the role ",
      "refused: RegisterModule of 1 bytes: PERMISSION_DENIED: Admin.Register",
      "refused: RegisterModule of 104857600 bytes: PERMISSION_DENIED: Admin.",
      "refused: Shutdown 499: PERMISSION_DENIED: Admin.Shutdown needs "},
     "call refused: Admin.Shutdown needs the role operator; process "},
    {"inject-faults",
     {"refused: Inject: PERMISSION_DENIED: Faults.Inject needs the role "
      "fault-injector; process ",
      "refused: List: PERMISSION_DENIED: Faults.List needs the role viewer",
      "refused: Clear: PERMISSION_DENIED: Faults.Clear needs the role "},
     "call refused: Faults.Inject needs the role fault-injector"},
    {"look-around",
     {"refused: GetStatus: PERMISSION_DENIED: Admin.GetStatus needs the role "
      "viewer; process ",
      "refused: ListDevices: PERMISSION_DENIED: Admin.ListDevices needs ",
      "refused: ListEkt: PERMISSION_DENIED: Admin.ListEkt needs ",
      "refused: ListRings: PERMISSION_DENIED: Admin.ListRings needs ",
      "refused: ListQueues: PERMISSION_DENIED: Admin.ListQueues needs ",
      "Admin/Watch 599: PERMISSION_DENIED: Admin.Watch needs the role viewer",
      "Admin/StreamSnapshots 599: PERMISSION_DENIED: Admin.StreamSnapshots ",
      "ServerReflectionInfo 599: PERMISSION_DENIED: ServerReflection.Server"},
     "call refused: Admin.ListDevices needs the role viewer"},
    {"huge-messages",
     {"refused: a message of 100 MiB: RESOURCE_EXHAUSTED",
      "refused: a kind of 60 MiB: RESOURCE_EXHAUSTED",
      "refused: headers of 256 KiB: "},
     ""},
};

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

struct TestbedUse {
  soak::ResourceUse gpud;
  uint32_t devices = 0;
  uint32_t ekt_used = 0;
  uint64_t memory_used = 0;

  friend std::ostream& operator<<(std::ostream& out, const TestbedUse& all) {
    return out << fmt::format(
               "{} descriptors, {} threads, {} regions, {} kB resident, {} "
               "devices, {} EKT entries, {} bytes",
               all.gpud.descriptors, all.gpud.threads, all.gpud.regions,
               all.gpud.resident_kb, all.devices, all.ekt_used,
               all.memory_used);
  }
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsKept = true;  // freed memory has shadows, or quarantine
#else
constexpr bool kMemoryIsKept = false;
#endif
// gpud's allocator and gRPC's pollers keep a part of the memory that they once
// had.
constexpr size_t kKeptKb = 96 * 1024;

bool IsOnGpu() {
  const char* const backend = getenv(testing::kBackendVariable);
  return backend != nullptr && std::string_view(backend) == "cuda";
}

int as_expected = 0;  // tricks that have been played

// What gpu_check's table shows, also of a run that it had to end.
void SayFinding(std::string_view now) {
  const auto& all = *::testing::UnitTest::GetInstance();
  std::string failed;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (test.should_run() && test.result()->Failed()) {
        failed += fmt::format(" {}", test.value_param());
      }
    }
  }
  fmt::print("finding: {} of {} as expected;{}{}{}\n", as_expected,
             all.test_to_run_count(), failed.empty() ? "" : " FAILED:", failed,
             now);
  fflush(stdout);
}

class LastFinding : public ::testing::Environment {
  void TearDown() override { SayFinding(""); }
};
const auto* const kLastFinding =
    ::testing::AddGlobalTestEnvironment(new LastFinding);

class HostileTest : public ::testing::TestWithParam<Expectation> {
 protected:
  void SetUp() override {
    SayFinding(fmt::format(" plays {}", GetParam().trick));
    auto testbed = Testbed::Start(
        {"--workers", "2", "--memory", "64M", "--max-priority", "3"});
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
    const rlimit limit{kDescriptors, kDescriptors};
    ASSERT_EQ(prlimit(testbed_->gpud().pid(), RLIMIT_NOFILE, &limit, nullptr),
              0);
    auto device = Attach("honest");
    ASSERT_TRUE(device.ok()) << Message(device.status());
    neighbour_ = std::make_unique<Neighbour>(*std::move(device));
    ASSERT_TRUE(neighbour_->GoesOn());
  }
  void TearDown() override { as_expected += !HasFailure(); }
  absl::StatusOr<std::unique_ptr<edge::Device>> Attach(
      const std::string& name) const {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    options.submission_bytes = 1 << 16;
    options.completion_bytes = 1 << 16;
    return edge::Device::Attach(options);
  }
  // A device attaches, is served, and leaves.
  absl::Status Visit() const {
    ASSIGN_OR_RETURN(auto device, Attach("newcomer"));
    ASSIGN_OR_RETURN(auto events, Checksums::Register(*device, 32));
    events->RingDoorbell();
    return events->Take();
  }
  std::unique_ptr<Process> Play(const std::string& trick) {
    auto hostile = testbed_->StartDevice(
        "hostile", "integration_tests/hostile/hostile_device",
        {"--dir", testbed_->directory(), "--victim", "honest", "--trick",
         trick});
    EXPECT_TRUE(hostile.ok()) << Message(hostile.status());
    return *std::move(hostile);
  }
  TestbedUse Held() {
    const v1::GetStatusResponse status = testbed_->Status();
    return {.gpud = soak::ResourceUseOf(testbed_->gpud().pid()),
            .devices = status.devices(),
            .ekt_used = status.ekt_used(),
            .memory_used = status.memory_used()};
  }
  // Waits until gpud uses no more than `before`.
  bool AllReturns(const TestbedUse& before) {
    return Eventually([&] {
      const TestbedUse now = Held();
      return now.gpud.descriptors <= before.gpud.descriptors &&
             now.gpud.threads <= before.gpud.threads &&
             now.gpud.regions == before.gpud.regions &&
             (kMemoryIsKept ||
              now.gpud.resident_kb <= before.gpud.resident_kb + kKeptKb) &&
             now.devices == before.devices && now.ekt_used == before.ekt_used &&
             now.memory_used == before.memory_used;
    });
  }

  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<Neighbour> neighbour_;
};

TEST_P(HostileTest, IsRefusedAndNobodyElseNotices) {
  const Expectation& expected = GetParam();
  // Let a first visit cause the lasting costs, so that they do not count for
  // the trick.
  ASSERT_TRUE(Visit().ok());
  const TestbedUse before = Held();

  auto hostile = Play(expected.trick);
  ASSERT_TRUE(hostile->WaitForOutput("holding\n"));
  for (const std::string& line : expected.says) {
    EXPECT_THAT(hostile->output(), HasSubstr(line));
  }
  EXPECT_THAT(hostile->output(), Not(HasSubstr("ACCEPTED")));
  EXPECT_THAT(hostile->output(), Not(HasSubstr("UNEXPECTED")));
  if (!expected.log.empty() && !(expected.of_cores && IsOnGpu())) {
    EXPECT_TRUE(testbed_->gpud().WaitForOutput(expected.log));
  }
  // The hostile device still holds everything that it could get.
  EXPECT_TRUE(neighbour_->GoesOn());
  const absl::Status visit = Visit();
  if (expected.newcomer.empty()) {
    EXPECT_TRUE(visit.ok()) << Message(visit);
  } else {
    EXPECT_EQ(visit.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(Message(visit), HasSubstr(expected.newcomer));
  }

  hostile->Kill();
  EXPECT_TRUE(AllReturns(before))
      << "before: " << before << "\nafter: " << Held();
  EXPECT_TRUE(neighbour_->GoesOn());
  const absl::Status end = neighbour_->Stop();
  EXPECT_TRUE(end.ok()) << Message(end);
  EXPECT_TRUE(Visit().ok());
  // Whatever it wrote, the log stays readable.
  const std::string log = testbed_->gpud().output();
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 200);
}

std::string TestName(const ::testing::TestParamInfo<Expectation>& info) {
  std::string name = info.param.trick;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// gpu_check runs each of them as a step.
INSTANTIATE_TEST_SUITE_P(Memory, HostileTest, ::testing::ValuesIn(kMemory),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Rings, HostileTest, ::testing::ValuesIn(kRings),
                         TestName);
INSTANTIATE_TEST_SUITE_P(HandOver, HostileTest, ::testing::ValuesIn(kHandOver),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Registrations, HostileTest,
                         ::testing::ValuesIn(kRegistrations), TestName);
INSTANTIATE_TEST_SUITE_P(Calls, HostileTest, ::testing::ValuesIn(kCalls),
                         TestName);

TEST(HostileTricksTest, EachIsExpectedHere) {
  auto list = Process::Start(
      "list",
      {testing::Program("integration_tests/hostile/hostile_device"), "--list"});
  ASSERT_TRUE(list.ok());
  ASSERT_EQ((*list)->Wait(), 0);
  std::istringstream lines((*list)->output());
  std::vector<std::string> named;
  for (std::string line; std::getline(lines, line);) {
    named.push_back(line.substr(0, line.find(' ')));
  }
  std::vector<std::string> expected;
  for (const Expectations* const some :
       {&kMemory, &kRings, &kHandOver, &kRegistrations, &kCalls}) {
    for (const Expectation& one : *some) expected.push_back(one.trick);
  }
  EXPECT_THAT(named, ::testing::UnorderedElementsAreArray(expected));
}

}  // namespace
}  // namespace carillon
