#include "tools/testbed/supervisor/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/unique_fd.h"
#include "tools/testbed/supervisor/log_rotation.h"
#include "tools/testbed/supervisor/supervisor_fixture.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(SupervisorTest, BringsEverythingUpAndLeavesNothingBehind) {
  probe_.devices = {{"a", {true, "port 7"}}, {"b", {true, ""}}};
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  EXPECT_THAT(Running(), ::testing::SizeIs(3));
  EXPECT_EQ(supervisor.state().phase, Phase::kUp);
  EXPECT_THAT(said_, HasSubstr("port 7"));
  const auto state = ReadState(paths_.state_file());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(ToJson(*state), ToJson(supervisor.state()));

  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(Running(), IsEmpty());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(SupervisorTest, WritesItsStateAsSoonAsThereIsRoomAgain) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  const auto in_file = [&] {
    return ReadState(paths_.state_file())->Find("a")->state;
  };
  // Nothing can be written there, as on a full disk.
  const std::string in_the_way = paths_.state_file() + ".tmp";
  ASSERT_TRUE(fs::create_directory(in_the_way));
  kill(supervisor.state().processes[1].identity.pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    supervisor.Watch(std::chrono::milliseconds(50));
    return supervisor.state().processes[1].state == ProcessState::kEnded;
  }));
  EXPECT_EQ(in_file(), ProcessState::kReady);
  EXPECT_THAT(said_, HasSubstr("until then ps shows an old state"));
  fs::remove(in_the_way);
  EXPECT_TRUE(Eventually([&] {
    supervisor.Watch(std::chrono::milliseconds(50));
    return in_file() == ProcessState::kEnded;
  }));
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, TellsEveryProcessHowMuchToRecord) {
  record_ = 4096;
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_THAT(Running(), ::testing::SizeIs(2));
  for (const ProcessIdentity& process : Running()) {
    const std::string environment =
        FileText("/proc/" + std::to_string(process.pid) + "/environ");
    EXPECT_THAT(environment,
                HasSubstr(std::string("CARILLON_RECORD=4096\0", 21)));
  }
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, EndsTheDevicesBeforeGpud) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] { return IsWaiting("gpud") && IsWaiting("a"); }));
  said_.clear();
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_LT(said_.find("a  "), said_.find("gpud  ")) << said_;
  EXPECT_THAT(supervisor.casualties(), IsEmpty());
}

TEST_F(SupervisorTest, FailsAtOnceWhenGpudEndsEarly) {
  probe_.gpud_serves = false;
  Supervisor& supervisor = Make({"exit", "3", "no GPU here"}, {});
  const absl::Status status = supervisor.BringUp();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "gpud ended during bring-up (exit code 3); the last lines of its "
            "log:\n  | no GPU here");
  EXPECT_EQ(ReadState(paths_.state_file())->phase, Phase::kFailed);
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(SupervisorTest, FailsAtOnceWhenADeviceEndsEarlyAndTakesTheRestDown) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make(
      {"wait"}, {Process("a", {"wait"}), Process("b", {"exit", "1", "oh"})});
  const absl::Status status = supervisor.BringUp();
  EXPECT_EQ(status.message(),
            "b ended during bring-up (exit code 1); the last lines of its "
            "log:\n  | oh");
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(SupervisorTest, FailsWhenGpudEndsWhileDevicesAreWaitedFor) {
  Supervisor& supervisor = Make({"exit", "0"}, {Process("a", {"wait"})});
  EXPECT_THAT(std::string(supervisor.BringUp().message()),
              HasSubstr("gpud ended during bring-up (exit code 0)"));
}

TEST_F(SupervisorTest, LetsADeviceEndProperlyAfterItWasReady) {
  probe_.devices = {{"a", {true, ""}}, {"b", {false, ""}}};
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})});
  // "a" ends once it was seen ready; only then does "b" become ready.
  probe_.on_devices = [&] {
    const auto state = ReadState(paths_.state_file());
    for (const ProcessRecord& record : state->processes) {
      if (record.name == "a" && record.state == ProcessState::kReady &&
          IsWaiting("a")) {
        kill(record.identity.pid, SIGTERM);
      }
      if (record.name == "a" && record.state == ProcessState::kEnded) {
        probe_.devices["b"].ready = true;
      }
    }
  };
  EXPECT_TRUE(supervisor.BringUp().ok()) << said_;
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, TakesNoCrashForASuccess) {
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"crash"})});
  EXPECT_EQ(supervisor.BringUp().message(),
            "a ended during bring-up (SIGSEGV); the last lines of its log:\n"
            "  (its log is empty)");
}

TEST_F(SupervisorTest, TakesAnEndWithoutReadinessForAFailure) {
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"exit", "0"})});
  EXPECT_THAT(std::string(supervisor.BringUp().message()),
              HasSubstr("a ended during bring-up (exit code 0)"));
}

TEST_F(SupervisorTest, LetsADeviceOfSimulatedTimeEndBeforeItIsSeen) {
  PlannedProcess brief = Process("a", {"exit", "0"});
  brief.may_end_unseen = true;
  Supervisor& supervisor = Make({"wait"}, {brief});
  EXPECT_TRUE(supervisor.BringUp().ok()) << said_;
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, LetsAnErrandEndThatNobodyWaitsFor) {
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"exit", "0"}, /*wait_ready=*/false)});
  EXPECT_TRUE(supervisor.BringUp().ok()) << said_;
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, SaysThatAProgramIsMissing) {
  Supervisor& supervisor = Make(
      {"wait"}, {{.name = "a", .kind = "test", .argv = {"/no/such/program"}}});
  const absl::Status status = supervisor.BringUp();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "a: cannot run /no/such/program: No such file or directory");
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(SupervisorTest, WaitsForReadinessWithABound) {
  probe_.devices = {{"a", {true, ""}}, {"b", {false, ""}}};
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})},
           {.ready_budget = milliseconds(300)});
  probe_.on_devices = [&] {
    EXPECT_TRUE(Eventually([&] { return IsWaiting("b"); }));
  };
  const absl::Status status = supervisor.BringUp();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "b did not report ready within 0.30 s; the last lines of its "
            "log:\nb:\n  | waiting");
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(SupervisorTest, WaitsForGpudsHealthWithABound) {
  probe_.gpud_serves = false;
  Supervisor& supervisor =
      Make({"wait"}, {}, {.ready_budget = milliseconds(300)});
  const absl::Status status = supervisor.BringUp();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("gpud did not answer its health check within 0.30 s "
                        "(nobody serves)"));
}

TEST_F(SupervisorTest, StopsABringUpWhenAskedTo) {
  probe_.gpud_serves = false;
  probe_.on_gpud = [] { raise(SIGINT); };
  Supervisor& supervisor = Make({"wait"}, {});
  EXPECT_EQ(supervisor.BringUp().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Running(), IsEmpty());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

// Else the next run of the same name would meet what is still ending.
TEST_F(SupervisorTest, WhatGoesWithItHasEndedBeforeTheNextRunMayBegin) {
  std::vector<absl::StatusCode> ends;
  const Supervisor::Options options{
      .ready_budget = milliseconds(100),
      .end = [&](const absl::Status& failure) {
        ends.push_back(failure.code());
        EXPECT_THAT(Running(), IsEmpty());
        EXPECT_TRUE(
            absl::IsAlreadyExists(LockedDirectory::Create(paths_).status()));
      }};
  // Its bring-up fails, it is interrupted, and it is taken down.
  probe_.gpud_serves = false;
  EXPECT_FALSE(Make({"wait"}, {}, options).BringUp().ok());
  EXPECT_THAT(ends, ElementsAre(absl::StatusCode::kDeadlineExceeded));
  supervisor_.reset();
  probe_.on_gpud = [] { raise(SIGINT); };
  EXPECT_FALSE(Make({"wait"}, {}, options).BringUp().ok());
  EXPECT_THAT(ends, ElementsAre(absl::StatusCode::kDeadlineExceeded,
                                absl::StatusCode::kCancelled));
  supervisor_.reset();
  probe_ = FakeProbe();
  Supervisor& supervisor = Make({"wait"}, {}, options);
  EXPECT_TRUE(supervisor.BringUp().ok());
  EXPECT_THAT(ends, ::testing::SizeIs(2));
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(ends,
              ElementsAre(absl::StatusCode::kDeadlineExceeded,
                          absl::StatusCode::kCancelled, absl::StatusCode::kOk));
}

TEST_F(SupervisorTest, ShowsAnEtcdThatGoesWithItAsSoonAsThatChanges) {
  const UniqueFd changed(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ProcessRecord etcd{.name = "etcd", .kind = "etcd", .identity = {7, 8}};
  Supervisor& supervisor = Make({"wait"}, {},
                                {.etcd =
                                     [&] {
                                       eventfd_t ignored = 0;
                                       eventfd_read(changed.get(), &ignored);
                                       return std::optional(etcd);
                                     },
                                 .etcd_changed_fd = changed.get()});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  const auto in_file = [&] { return ReadState(paths_.state_file())->etcd; };
  EXPECT_EQ(in_file()->identity.pid, 7);
  etcd.identity.pid = 9;
  etcd.restarts = 1;
  eventfd_write(changed.get(), 1);
  // Nothing else wakes it for so long.
  EXPECT_TRUE(supervisor.Watch(std::chrono::hours(1)));
  EXPECT_EQ(in_file()->identity.pid, 9);
  EXPECT_EQ(in_file()->restarts, 1u);
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, ReportsALaterDeathAndStaysUp) {
  probe_.devices = {{"a", {true, ""}}, {"b", {true, ""}}};
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  kill(supervisor.state().processes[1].identity.pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(supervisor.Watch(milliseconds(10)));
    return said_.find("a has ended (SIGKILL)") != std::string::npos;
  }));
  const auto state = ReadState(paths_.state_file());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->phase, Phase::kUp);
  EXPECT_EQ(state->processes[1].state, ProcessState::kEnded);
  EXPECT_EQ(state->processes[1].exit->signal, SIGKILL);
  EXPECT_EQ(state->processes[2].state, ProcessState::kReady);
  EXPECT_THAT(supervisor.casualties(), ElementsAre("a (SIGKILL)"));
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, WatchEndsWhenASignalAsksForIt) {
  Supervisor& supervisor = Make({"wait"}, {});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  EXPECT_TRUE(supervisor.Watch(milliseconds(1)));
  raise(SIGTERM);
  EXPECT_FALSE(supervisor.Watch(milliseconds(10'000)));
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, WhatIsStoppedEndsInOrderToo) {
  probe_.devices["nic0"] = {true, ""};
  Supervisor& supervisor = Make({"wait"}, {Process("nic0", {"wait"})});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(
      Eventually([&] { return IsWaiting("gpud") && IsWaiting("nic0"); }));
  for (const ProcessRecord& process : supervisor.state().processes) {
    kill(process.identity.pid, SIGSTOP);
  }
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(supervisor.casualties(), IsEmpty());
}

TEST_F(SupervisorTest, RotatesTheLogsOfWhatRuns) {
  Supervisor& supervisor = Make({"wait"}, {});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] { return IsWaiting("gpud"); }));
  const std::string log = paths_.log_directory() + "/gpud.log";
  fs::resize_file(log, kMaxLogBytes + 1);
  const std::string old = paths_.log_directory() + "/gpud.old.log";
  while (!fs::exists(old)) {
    ASSERT_TRUE(supervisor.Watch(milliseconds(10'000)));
  }
  EXPECT_EQ(fs::file_size(log), 0u);
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(SupervisorTest, KillsWhoIgnoresSigtermAfterTheGrace) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make({"wait"}, {Process("a", {"stubborn"})},
                                {.device_grace = milliseconds(100)});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] { return IsWaiting("a"); }));
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(said_, HasSubstr("did not end within 0.10 s: killed"));
  EXPECT_THAT(supervisor.casualties(), ElementsAre("a (did not end)"));
  EXPECT_THAT(Running(), IsEmpty());
}

// The third request kills at once what would use a long grace.
TEST_F(SupervisorTest, KillsEverythingAtTheThirdRequest) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor = Make({"stubborn"}, {Process("a", {"stubborn"})},
                                {.device_grace = std::chrono::hours(1),
                                 .gpud_grace = std::chrono::hours(1)});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] { return IsWaiting("a") && IsWaiting("gpud"); }));
  raise(SIGINT);
  EXPECT_FALSE(supervisor.Watch(milliseconds(10'000)));
  raise(SIGTERM);
  raise(SIGHUP);
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(said_, HasSubstr("killing everything"));
  EXPECT_THAT(Running(), IsEmpty());
  EXPECT_FALSE(fs::exists(paths_.directory()));
}

TEST_F(SupervisorTest, KillsWhatADeviceLeavesBehind) {
  probe_.devices = {{"a", {true, ""}}};
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"leave"}, /*wait_ready=*/false)});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] {
    supervisor.Watch(milliseconds(10));
    return said_.find("left 1 processes behind: killed") != std::string::npos;
  }));
  EXPECT_TRUE(Eventually([&] { return Running().size() == 1; }));
  EXPECT_TRUE(supervisor.TakeDown().ok());
}

TEST_F(SupervisorTest, TakesDaemonsDownToo) {
  Supervisor& supervisor =
      Make({"wait"}, {Process("a", {"daemonize"}, /*wait_ready=*/false)});
  ASSERT_TRUE(supervisor.BringUp().ok()) << said_;
  ASSERT_TRUE(Eventually([&] { return IsWaiting("a"); }));
  EXPECT_TRUE(supervisor.TakeDown().ok());
  EXPECT_THAT(said_, HasSubstr("1 process went on in the background: killed"));
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(SupervisorTest, AFailedBringUpLeavesNoDaemon) {
  probe_.on_devices = [&] {
    EXPECT_TRUE(Eventually([&] { return IsWaiting("a"); }));
  };
  Supervisor& supervisor =
      Make({"wait"},
           {Process("a", {"daemonize"}, /*wait_ready=*/false),
            Process("b", {"wait"})},
           {.ready_budget = milliseconds(100)});
  EXPECT_EQ(supervisor.BringUp().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Running(), IsEmpty());
}

TEST(LastLines, ShowsTheEndAndNothingThatATerminalObeys) {
  TestFolder folder;
  const std::string path = folder.path() + "/x.log";
  EXPECT_EQ(LastLines(path, 2), "  (its log is empty)");
  std::ofstream(path) << "one\ntwo\x1b[2J\nthree\tfour";
  EXPECT_EQ(LastLines(path, 2), "  | two\\x1b[2J\n  | three  four");
  std::ofstream(path) << std::string(200'000, 'x') << "\nend\n";
  EXPECT_EQ(LastLines(path, 1), "  | end");
}

}  // namespace
}  // namespace carillon::testbed
