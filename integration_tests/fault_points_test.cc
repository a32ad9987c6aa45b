// Injected faults in real processes, at every named point, and what each action
// does there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"
#include "proto/faults.grpc.pb.h"
#include "shm/faults/board.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using edge::EventState;
using faults::Action;
using faults::Fault;
using faults::Point;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Process;
using testing::Testbed;

constexpr char kEcho[] = "integration_tests/echo_device";
constexpr int kKilled = -SIGKILL;
constexpr int kTestbedLost = 4;

class FaultPointsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv(shm::FlightRecorder::kVariable, "65536", 1);
    auto testbed = Testbed::Start(kFlags);
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
    auto board = faults::Board::Open(testbed_->paths().fault_board());
    ASSERT_TRUE(board.ok()) << std::string(board.status().message());
    board_ = *std::move(board);
  }
  void TearDown() override { unsetenv(shm::FlightRecorder::kVariable); }

  void Inject(const Fault& fault) {
    auto ids = board_->Inject({&fault, 1});
    ASSERT_TRUE(ids.ok()) << std::string(ids.status().message());
  }
  uint64_t struck() const { return board_->List().at(0).struck; }

  std::unique_ptr<Process> StartEcho(const std::string& name, int events,
                                     int patience_ms = 20'000) {
    auto echo = testbed_->StartDevice(
        name, kEcho,
        {"--events", std::to_string(events), "--resume-within", "60",
         "--patience", std::to_string(patience_ms), "--pause",
         std::to_string(pause_ms_)});
    EXPECT_TRUE(echo.ok()) << std::string(echo.status().message());
    return echo.ok() ? *std::move(echo) : nullptr;
  }
  // Restarts echo0 as `restart: on_failure` does, until it has echoed
  // everything.
  void EchoWhateverDies(int events) {
    auto echo = StartEcho("echo0", events);
    for (int deaths = 0; deaths < 100;) {
      ASSERT_TRUE(Eventually([&] {
        return testbed_->gpud().ended() || echo->ended();
      })) << echo->output();
      if (testbed_->gpud().ended()) {
        ++deaths;
        const auto status = testbed_->RestartGpud(kFlags);
        ASSERT_TRUE(status.ok()) << std::string(status.message());
        continue;
      }
      const int exit = *echo->Wait();
      if (exit == 0) return;
      ++deaths;
      ASSERT_THAT(exit, ::testing::AnyOf(kKilled, kTestbedLost))
          << echo->output();
      echo = StartEcho("echo0", events);
    }
    FAIL() << "something dies again and again";
  }
  ledger::Report Ledger() {
    std::vector<std::string> unreadable;
    return ledger::Check(shm::ReadFlightRecordings(
        testbed_->paths().recorder_directory(), &unreadable));
  }
  void ExpectNoViolation() {
    const ledger::Report report = Ledger();
    for (const auto& violation : report.violations) {
      ADD_FAILURE() << violation.sentence;
    }
    EXPECT_GT(report.total.ok, 0u);
  }
  std::unique_ptr<edge::Device> Attach(const std::string& name) {
    auto device =
        edge::Device::Attach({.testbed_directory = testbed_->directory(),
                              .name = name,
                              .kind = "test"});
    EXPECT_TRUE(device.ok()) << std::string(device.status().message());
    return device.ok() ? *std::move(device) : nullptr;
  }

  int pause_ms_ = 0;  // of an echo device, after each round
  const std::vector<std::string> kFlags = {"--faults", "--workers", "1",
                                           "--backend", "cpu"};
  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<faults::Board> board_;
};

class EveryPointTest : public FaultPointsTest,
                       public ::testing::WithParamInterface<Point> {
 protected:
  EveryPointTest() {
    // The lease is renewed only a few times a second.
    if (GetParam() == Point::kGpudLease) pause_ms_ = 100;
  }
  // Strikes at the 50th event, or at the first passage of a rare point.
  Fault FaultHere(Action action) const {
    const faults::PointInfo& info = faults::InfoOf(GetParam());
    const bool of_gpud = info.name.starts_with("gpud.");
    const bool often = info.of_event && GetParam() != Point::kDeviceRegistered;
    return {.name = "f",
            .process = of_gpud ? "gpud" : "echo0",
            .point = GetParam(),
            .nth = often ? 50u : 1u,
            .action = action};
  }
};

std::vector<Point> PointsOfEvents() {
  std::vector<Point> points;
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.name.starts_with("device.") || info.name.starts_with("gpud.")) {
      points.push_back(info.point);
    }
  }
  return points;
}
INSTANTIATE_TEST_SUITE_P(All, EveryPointTest,
                         ::testing::ValuesIn(PointsOfEvents()),
                         [](const ::testing::TestParamInfo<Point>& info) {
                           std::string name(faults::InfoOf(info.param).name);
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST_P(EveryPointTest, AKillLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(Inject(FaultHere(Action::kKill)));
  ASSERT_NO_FATAL_FAILURE(EchoWhateverDies(500));
  EXPECT_EQ(struck(), 1u);
  ExpectNoViolation();
  EXPECT_TRUE(
      Eventually([&] { return testbed_->Devices().devices().empty(); }));
  EXPECT_EQ(testbed_->Status().ekt_used(), 0u);
}

TEST_P(EveryPointTest, AStopIsAPause) {
  Fault fault = FaultHere(Action::kStop);
  fault.duration_ns = 30'000'000;
  ASSERT_NO_FATAL_FAILURE(Inject(fault));
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 500, failed 0"));
  EXPECT_EQ(struck(), 1u);
  EXPECT_FALSE(testbed_->gpud().ended());
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.indeterminate(), 0u);
}

// --- Entries and doorbells.

TEST_F(FaultPointsTest, ABadEntryFailsAndCostsNobodyElse) {
  struct Case {
    Action action;
    shm::EventStatus status;
  };
  for (const Case& c :
       {Case{Action::kStale, shm::EventStatus::kStaleGeneration},
        Case{Action::kTear, shm::EventStatus::kStaleGeneration}}) {
    ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                    .process = "echo0",
                                    .point = Point::kDeviceCommit,
                                    .nth = 10,
                                    .action = c.action,
                                    // The sequence was written, the rest was
                                    // not.
                                    .count = sizeof(uint64_t)}));
    auto echo = StartEcho("echo0", 100);
    EXPECT_EQ(echo->Wait(), 0) << echo->output();
    EXPECT_THAT(echo->output(), HasSubstr("taken 100, failed 1"));
    EXPECT_THAT(echo->output(),
                HasSubstr(fmt::format("event 10 failed with status {}",
                                      static_cast<uint32_t>(c.status))));
    ASSERT_TRUE(board_->Clear("f").ok());
  }
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.failed, 2u);
}

TEST_F(FaultPointsTest, ACorruptSequenceFails) {
  ASSERT_NO_FATAL_FAILURE(
      Inject({.name = "f",
              .process = "echo0",
              .point = Point::kDeviceCommit,
              .nth = 10,
              .action = Action::kCorrupt,
              .offset = offsetof(shm::EsqEntryHeader, sequence),
              .mask = "\xff"}));
  auto echo = StartEcho("echo0", 100);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 100, failed 1"));
}

TEST_F(FaultPointsTest, ADoorbellThatIsRungTwiceCountsOnce) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceRing,
                                  .times = 0,
                                  .action = Action::kDouble}));
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.ok, 500u);
}

TEST_F(FaultPointsTest, ALostDoorbellIsFoundByTheLedger) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceRing,
                                  .action = Action::kLose}));
  auto echo = StartEcho("echo0", 100, /*patience_ms=*/200);
  // The first ring was for all slots, so nothing follows, and the device
  // reports it.
  EXPECT_EQ(echo->Wait(), 1) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("no event of 'echo'"));
  // gpud's silence counts once it has lasted.
  EXPECT_TRUE(Eventually(
      [&] { return Ledger().total.of(ledger::Fault::kLost) == 32u; }));
}

TEST_F(FaultPointsTest, AStormOfDoorbellsCostsItsDeviceItsRegistration) {
  auto neighbour = StartEcho("echo1", 0);
  ASSERT_TRUE(
      Eventually([&] { return testbed_->Counter("echo1", "taken") > 100; }));
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceRing,
                                  .nth = 5,
                                  .action = Action::kStorm,
                                  .count = 1'000'000}));
  auto echo = StartEcho("echo0", 10'000);
  EXPECT_EQ(echo->Wait(), kTestbedLost) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("EVICTED"));
  EXPECT_TRUE(testbed_->gpud().WaitForOutput("jumped by"));
  const uint64_t before = testbed_->Counter("echo1", "taken");
  EXPECT_TRUE(Eventually(
      [&] { return testbed_->Counter("echo1", "taken") > before + 100; }));
  neighbour->Signal(SIGTERM);
  EXPECT_EQ(neighbour->Wait(), 0) << neighbour->output();
  EXPECT_THAT(neighbour->output(), HasSubstr("failed 0"));
}

TEST_F(FaultPointsTest, ASlowConsumerHoldsUpNobodyElse) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceTake,
                                  .times = 50,
                                  .action = Action::kDelay,
                                  .duration_ns = 10'000'000}));
  auto slow = StartEcho("echo0", 200);
  auto fast = StartEcho("echo1", 2'000);
  EXPECT_EQ(fast->Wait(), 0) << fast->output();
  EXPECT_EQ(slow->Wait(), 0) << slow->output();
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.ok, 2'200u);
}

TEST_F(FaultPointsTest, AFullRingMakesItsDeviceWait) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceSlots,
                                  .nth = 20,
                                  .every = 3,
                                  .times = 50,
                                  .action = Action::kFull}));
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_EQ(struck(), 50u);
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.ok, 500u);
}

// --- States.

TEST_F(FaultPointsTest, AFaultWaitsUntilADeviceIsBack) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceRing,
                                  .after_process = "echo0",
                                  .after_state = faults::State::kAttached,
                                  .after_count = 3}));
  for (int life = 1; life <= 3; ++life) {
    auto echo = StartEcho("echo0", 20);
    EXPECT_EQ(echo->Wait(), life < 3 ? 0 : kKilled) << life << echo->output();
  }
}

TEST_F(FaultPointsTest, AFaultWaitsUntilAnotherGpudIsReady) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "gpud",
                                  .point = Point::kGpudLaunch,
                                  .after_process = "gpud",
                                  .after_state = faults::State::kReady}));
  auto echo = StartEcho("echo0", 0);
  ASSERT_TRUE(
      Eventually([&] { return testbed_->Counter("echo0", "taken") > 100; }));
  EXPECT_EQ(struck(), 0u);
  testbed_->gpud().Signal(SIGKILL);
  testbed_->gpud().Wait();
  // The echo device resumes, and its first event is the one: perhaps before
  // anybody has found that gpud runs.
  (void)testbed_->RestartGpud(kFlags);
  EXPECT_TRUE(Eventually([&] { return struck() == 1u; }));
  echo->Signal(SIGKILL);
}

// --- gpud.

TEST_F(FaultPointsTest, AFullEktIsToldAsTheRealOneIs) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .device = "echo*",
                                  .point = Point::kGpudRegister,
                                  .action = Action::kFull}));
  auto refused = StartEcho("echo0", 10);
  EXPECT_EQ(refused->Wait(), 1) << refused->output();
  EXPECT_THAT(refused->output(),
              ::testing::AllOf(HasSubstr("the event kernel table is full: all"),
                               ::testing::Not(HasSubstr("injected"))));
  EXPECT_EQ(testbed_->Status().ekt_used(), 0u);
  auto next = StartEcho("echo0", 10);
  EXPECT_EQ(next->Wait(), 0) << next->output();
}

TEST_F(FaultPointsTest, ReorderedCompletionsAreTakenInOrder) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .device = "echo0",
                                  .point = Point::kGpudComplete,
                                  .nth = 10,
                                  .every = 7,
                                  .times = 50,
                                  .action = Action::kReorder}));
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 500, failed 0"));
  EXPECT_EQ(struck(), 50u);
  ExpectNoViolation();
  EXPECT_EQ(Ledger().total.ok, 500u);
  EXPECT_EQ(Ledger().total.indeterminate(), 0u);
}

TEST_F(FaultPointsTest, AScribbledOutputIsFoundByItsDevice) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .device = "echo0",
                                  .point = Point::kGpudOutput,
                                  .nth = 20,
                                  .action = Action::kCorrupt}));
  auto echo = StartEcho("echo0", 100);
  EXPECT_EQ(echo->Wait(), 1) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("event 20 echoes something else"));
}

TEST_F(FaultPointsTest, ACorruptedCompletionIsFoundByTheLedger) {
  struct Case {
    uint32_t offset;
    int exit;
    ledger::Fault found;
  };
  for (const Case& c :
       {Case{offsetof(shm::EcqEntry, state), 0, ledger::Fault::kUnexpected},
        Case{offsetof(shm::EcqEntry, status), 0, ledger::Fault::kContradicted},
        Case{offsetof(shm::EcqEntry, sequence), 1, ledger::Fault::kLost}}) {
    ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                    .device = "echo0",
                                    .point = Point::kGpudComplete,
                                    .nth = 20,
                                    .action = Action::kCorrupt,
                                    .offset = c.offset + 1,
                                    .mask = "\x01"}));
    auto echo = StartEcho("echo0", 100, /*patience_ms=*/200);
    EXPECT_EQ(echo->Wait(), c.exit) << echo->output();
    EXPECT_EQ(Ledger().total.of(c.found), 1u) << c.offset;
    ASSERT_TRUE(board_->Clear("f").ok());
  }
}

TEST_F(FaultPointsTest, WhatIsRefusedIsRefusedCleanly) {
  for (const Point point : {Point::kGpudAttach, Point::kGpudAllocate,
                            Point::kGpudRegister, Point::kGpudHandover}) {
    const bool lost = point == Point::kGpudHandover;
    ASSERT_NO_FATAL_FAILURE(
        Inject({.name = "f",
                .device = "echo*",
                .point = point,
                .action = lost ? Action::kLose : Action::kRefuse}));
    auto refused = StartEcho("echo0", 10);
    EXPECT_EQ(refused->Wait(), lost ? kTestbedLost : 1) << refused->output();
    EXPECT_THAT(refused->output(), HasSubstr(lost ? "hand-over" : "injected"));
    EXPECT_TRUE(
        Eventually([&] { return testbed_->Devices().devices().empty(); }));
    EXPECT_EQ(testbed_->Status().ekt_used(), 0u);
    auto next = StartEcho("echo0", 10);
    EXPECT_EQ(next->Wait(), 0) << next->output();
    EXPECT_EQ(struck(), 1u);
    ASSERT_TRUE(board_->Clear("f").ok());
  }
}

TEST_F(FaultPointsTest, ACallCanBeAborted) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .method = "Register*",
                                  .point = Point::kGpudRpc,
                                  .action = Action::kAbort,
                                  .code = 14}));
  auto refused = StartEcho("echo0", 10);
  EXPECT_EQ(refused->Wait(), kTestbedLost) << refused->output();
  EXPECT_THAT(refused->output(),
              HasSubstr("an injected fault ends the call RegisterEvent"));
}

TEST_F(FaultPointsTest, AKernelFaultsAndTheDeviceIsTold) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .device = "echo0",
                                  .point = Point::kGpudKernel,
                                  .nth = 7,
                                  .every = 10,
                                  .times = 3,
                                  .action = Action::kFail,
                                  .code = 1234}));
  auto echo = StartEcho("echo0", 100);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 100, failed 3"));
  EXPECT_THAT(echo->output(), HasSubstr("event 27 failed with status 1234"));
  ExpectNoViolation();
}

TEST_F(FaultPointsTest, AKernelThatNeverEndsIsAbortedWithItsDevice) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .device = "echo0",
                                  .point = Point::kGpudKernel,
                                  .nth = 7,
                                  .action = Action::kHang}));
  auto echo = StartEcho("echo0", 100, /*patience_ms=*/200);
  EXPECT_EQ(echo->Wait(), 1) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 6,"));
  EXPECT_TRUE(
      Eventually([&] { return testbed_->Devices().devices().empty(); }));
  ExpectNoViolation();
}

TEST_F(FaultPointsTest, ACompletionStoredTwiceIsFoundByTheLedger) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .point = Point::kGpudComplete,
                                  .times = 0,
                                  .action = Action::kDouble}));
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 500, failed 0"));
  EXPECT_EQ(struck(), 500u);
  // The device took each once.
  EXPECT_EQ(Ledger().total.of(ledger::Fault::kDuplicated), 500u);
  EXPECT_EQ(Ledger().total.ok, 500u);
}

TEST_F(FaultPointsTest, ALostCompletionIsFoundByTheLedger) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .point = Point::kGpudComplete,
                                  .nth = 20,
                                  .action = Action::kLose}));
  auto echo = StartEcho("echo0", 100, /*patience_ms=*/200);
  EXPECT_EQ(echo->Wait(), 1) << echo->output();
  EXPECT_THAT(echo->output(), HasSubstr("taken 19,"));
  EXPECT_EQ(Ledger().total.of(ledger::Fault::kLost), 1u);
}

TEST_F(FaultPointsTest, AFrozenLeaseShows) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f",
                                  .process = "echo0",
                                  .point = Point::kDeviceLease,
                                  .nth = 3,
                                  .times = 0,
                                  .action = Action::kLose}));
  auto echo = StartEcho("echo0", 0);
  EXPECT_TRUE(Eventually([&] {
    const auto devices = testbed_->Devices();
    return devices.devices_size() == 1 &&
           devices.devices(0).silent_ns() > 500'000'000;
  }));
  echo->Signal(SIGTERM);
  EXPECT_EQ(echo->Wait(), 0) << echo->output();
}

// --- The Faults service.

TEST_F(FaultPointsTest, TheServiceInjectsListsAndClears) {
  const auto stub = v1::Faults::NewStub(testbed_->channel());
  const auto call = [&](auto method, const auto& request, auto* response) {
    grpc::ClientContext context;
    return ((*stub).*method)(&context, request, response);
  };
  v1::InjectRequest inject;
  v1::Fault& fault = *inject.add_faults();
  fault.set_name("f");
  fault.mutable_target()->set_process("echo0");
  fault.mutable_when()->set_point("device.ring");
  fault.mutable_when()->set_nth(50);
  fault.mutable_action()->set_kind("kill");
  v1::InjectResponse injected;
  auto status = call(&v1::Faults::Stub::Inject, inject, &injected);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(injected.ids_size(), 1);
  EXPECT_EQ(call(&v1::Faults::Stub::Inject, inject, &injected).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  auto echo = StartEcho("echo0", 500);
  EXPECT_EQ(echo->Wait(), kKilled) << echo->output();

  v1::ListFaultsResponse list;
  ASSERT_TRUE(
      call(&v1::Faults::Stub::List, v1::ListFaultsRequest(), &list).ok());
  ASSERT_EQ(list.faults_size(), 1);
  EXPECT_EQ(list.faults(0).fault().when().point(), "device.ring");
  EXPECT_EQ(list.faults(0).passages(), 50u);
  EXPECT_EQ(list.faults(0).struck(), 1u);
  EXPECT_TRUE(list.faults(0).spent());
  ASSERT_EQ(list.strikes_size(), 1);
  EXPECT_EQ(list.strikes(0).pid(), static_cast<uint32_t>(echo->pid()));
  ASSERT_EQ(list.processes_size(), 1);
  EXPECT_EQ(list.processes(0).name(), "gpud");

  v1::ClearFaultsResponse cleared;
  ASSERT_TRUE(
      call(&v1::Faults::Stub::Clear, v1::ClearFaultsRequest(), &cleared).ok());
  EXPECT_EQ(cleared.cleared(), 1u);
  v1::ClearFaultsRequest unknown;
  unknown.set_name("f");
  EXPECT_EQ(call(&v1::Faults::Stub::Clear, unknown, &cleared).error_code(),
            grpc::StatusCode::NOT_FOUND);

  fault.mutable_when()->set_point("device.rnig");
  status = call(&v1::Faults::Stub::Inject, inject, &injected);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("'device.rnig' is none"));
  fault.mutable_when()->set_point("device.ring");
  fault.mutable_action()->set_kind("hang");
  status = call(&v1::Faults::Stub::Inject, inject, &injected);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("no meaning at device.ring"));
}

TEST(NoFaults, AGpudWithoutThemHasNoBoardAndSaysSo) {
  auto testbed = Testbed::Start({"--backend", "cpu"});
  ASSERT_TRUE(testbed.ok());
  EXPECT_TRUE(absl::IsNotFound(
      faults::Board::Open((*testbed)->paths().fault_board()).status()));
  const auto stub = v1::Faults::NewStub((*testbed)->channel());
  grpc::ClientContext context;
  v1::ListFaultsResponse list;
  const auto status = stub->List(&context, v1::ListFaultsRequest(), &list);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("without --faults"));
}

TEST_F(FaultPointsTest, FaultsCountOnAfterGpudsDeathAndEndWithItsEnd) {
  ASSERT_NO_FATAL_FAILURE(Inject({.name = "f", .process = "nobody"}));
  testbed_->gpud().Kill();
  ASSERT_TRUE(testbed_->RestartGpud(kFlags).ok());
  EXPECT_EQ(board_->List().size(), 1u);
  testbed_->gpud().Signal(SIGTERM);
  ASSERT_EQ(testbed_->gpud().Wait(), 0);
  ASSERT_TRUE(testbed_->RestartGpud(kFlags).ok());
  auto board = faults::Board::Open(testbed_->paths().fault_board());
  ASSERT_TRUE(board.ok());
  EXPECT_TRUE((*board)->List().empty());
}

}  // namespace
}  // namespace carillon
