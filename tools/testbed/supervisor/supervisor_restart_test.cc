// A testbed's processes are restarted, and nothing of them stays if the testbed
// ends meanwhile.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/restart/restart_mark.h"
#include "base/status.h"
#include "tools/testbed/supervisor/dashboard_link.h"
#include "tools/testbed/supervisor/supervisor_fixture.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
class SupervisorRestartTest : public SupervisorTest {
 protected:
  // A client in a thread of its own, since the supervisor runs in this one.
  class Client {
   public:
    Client(const TestbedPaths& paths, Json request)
        : thread_([this, socket = SupervisorSocketOf(paths), request] {
            answer_ = AskSupervisor(
                {.socket = socket,
                 .request = request,
                 .limit = milliseconds(30'000),
                 .quiet = milliseconds(0),
                 .say = [this](const std::string& l) { said_ += l + "\n"; }});
            done_.store(true, std::memory_order_release);
          }) {}
    ~Client() {
      if (thread_.joinable()) thread_.join();
    }
    bool done() const { return done_.load(std::memory_order_acquire); }
    // Valid after done().
    const absl::StatusOr<Json>& answer() const { return answer_; }
    const std::string& said() const { return said_; }

   private:
    absl::StatusOr<Json> answer_;
    std::string said_;
    // Writer: the thread, with release, after the two above; reader: done().
    std::atomic<bool> done_{false};
    std::thread thread_;
  };

  static RestartRequest Of(std::vector<std::string> names) {
    return {.processes = std::move(names)};
  }

  void MakeUp(const Arguments& gpud, const std::vector<PlannedProcess>& devices,
              Supervisor::Options options = {}) {
    for (const PlannedProcess& device : devices) {
      probe_.devices[device.name] = {true, ""};
    }
    Make(gpud, devices, options);
    ASSERT_TRUE(supervisor_->BringUp().ok()) << said_;
    const auto waits = [&](const auto& name) { return Waits(name) == 1; };
    ASSERT_TRUE(Eventually([&] {
      return waits("gpud") &&
             std::all_of(devices.begin(), devices.end(),
                         [&](const auto& d) { return waits(d.name); });
    }));
    said_.clear();
  }

  bool WatchUntil(const std::function<bool()>& condition) {
    return Eventually([&] {
      EXPECT_TRUE(supervisor_->Watch(milliseconds(5)));
      return condition();
    });
  }
  absl::StatusOr<Json> Ask(const RestartRequest& request) {
    Client client(paths_, ToJson(request));
    EXPECT_TRUE(WatchUntil([&] { return client.done(); }));
    return client.answer();
  }

  const ProcessRecord& Record(const std::string& name) const {
    const auto& all = supervisor_->state().processes;
    return *std::find_if(all.begin(), all.end(),
                         [&](const auto& r) { return r.name == name; });
  }
  pid_t Pid(const std::string& name) const { return Record(name).identity.pid; }
  std::string Log(const std::string& name) const {
    return FileText(paths_.log_directory() + "/" + name + ".log");
  }
  // How often a process has reached the point where it expects SIGTERM.
  int Waits(const std::string& name) const {
    const std::string log = Log(name);
    int count = 0;
    for (size_t at = 0; (at = log.find("waiting\n", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }
  void ExpectNothingLeft() {
    EXPECT_THAT(Running(), IsEmpty());
    EXPECT_FALSE(fs::exists(paths_.directory()));
  }
};

TEST_F(SupervisorRestartTest, StartsADeviceAgainAndNothingElse) {
  MakeUp({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})});
  const pid_t a = Pid("a");
  const pid_t b = Pid("b");
  const pid_t gpud = Pid("gpud");
  probe_.devices["a"].note = "port 8";
  const auto answer = Ask(Of({"a"}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)["testbed"], "demo");
  ASSERT_EQ((*answer)["restarted"].size(), 1u) << *answer;
  const Json& restarted = (*answer)["restarted"][0];
  EXPECT_EQ(restarted["name"], "a");
  EXPECT_EQ(restarted["state"], "ready");
  EXPECT_EQ(restarted["note"], "port 8");
  EXPECT_EQ(restarted["restarts"], 1);
  EXPECT_EQ(restarted["pid"], Pid("a"));
  EXPECT_GT(restarted["took_ns"], 0);

  EXPECT_NE(Pid("a"), a);
  EXPECT_EQ(Pid("b"), b);
  EXPECT_EQ(Pid("gpud"), gpud);
  EXPECT_THAT(Running(), SizeIs(3));
  EXPECT_TRUE(Record("a").last_exit->ok());
  EXPECT_FALSE(Record("a").exit);
  EXPECT_EQ(ToJson(*ReadState(paths_.state_file())),
            ToJson(supervisor_->state()));
  EXPECT_THAT(supervisor_->casualties(), IsEmpty());
  ASSERT_TRUE(Eventually([&] { return Waits("a") == 2; }));
  EXPECT_THAT(
      Log("a"),
      HasSubstr(" supervisor info starts a again (restart 1); it had ended "
                "(exit code 0)\nwaiting\n"));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  EXPECT_THAT(supervisor_->casualties(), IsEmpty());
  ExpectNothingLeft();
}

TEST_F(SupervisorRestartTest, WhatStartsAgainIsToldSo) {
  PlannedProcess told = Process("a", {"wait"});
  told.when_restarted = {"--again"};
  MakeUp({"wait"}, {told});
  const auto has_it = [&] {
    return FileText(fmt::format("/proc/{}/cmdline", Pid("a")))
        .ends_with(std::string("wait\0--again\0", 13));
  };
  EXPECT_FALSE(has_it());
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_TRUE(has_it());
}

TEST_F(SupervisorRestartTest, EndsGpudAfterTheDevicesAndStartsItBefore) {
  MakeUp({"wait"}, {Process("a", {"wait"}), Process("b", {"wait"})});
  Client client(paths_, ToJson(Of({"a", "gpud"})));
  ASSERT_TRUE(WatchUntil([&] { return client.done(); }));
  ASSERT_TRUE(client.answer().ok()) << client.answer().status();
  size_t last = 0;
  for (const char* line :
       {"restarting gpud and a, as asked",
        "a                ended (exit code 0)",
        "gpud             ended (exit code 0)", "gpud             ready",
        "a                ready"}) {
    for (const std::string& said : {said_, client.said()}) {
      EXPECT_THAT(said, HasSubstr(line));
    }
    EXPECT_GE(said_.find(line), last) << said_;
    last = said_.find(line);
  }
  EXPECT_EQ(Record("b").restarts, 0u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, StartsADeviceOnlyWhenGpudServes) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.gpud_serves = false;
  int asked = 0;
  probe_.on_gpud = [&] {
    EXPECT_THAT(Running(), SizeIs(1));
    probe_.gpud_serves = ++asked == 5;
  };
  EXPECT_TRUE(Ask(Of({"gpud", "a"})).ok());
  EXPECT_EQ(asked, 5);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, KillsAtOnceWhenAskedTo) {
  MakeUp({"stubborn"}, {Process("a", {"stubborn"})},
         {.device_grace = std::chrono::hours(1),
          .gpud_grace = std::chrono::hours(1)});
  RestartRequest request = Of({"a", "gpud"});
  request.kill = true;
  const auto answer = Ask(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Record("a").last_exit->signal, SIGKILL);
  EXPECT_THAT(supervisor_->casualties(), IsEmpty());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) raise(signal);
  EXPECT_FALSE(supervisor_->Watch(milliseconds(1000)));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  ExpectNothingLeft();
}

TEST_F(SupervisorRestartTest, KillsWhoIgnoresSigtermAfterTheGrace) {
  MakeUp({"wait"}, {Process("a", {"stubborn"})},
         {.device_grace = milliseconds(100)});
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_THAT(said_, HasSubstr("did not end within 0.10 s: killed"));
  EXPECT_THAT(supervisor_->casualties(), ElementsAre("a (did not end)"));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, DevicesCanTellThatAKilledGpudWasToMakeWay) {
  for (const bool kill : {false, true}) {
    MakeUp({"stubborn"}, {}, {.gpud_grace = milliseconds(100)});
    EXPECT_FALSE(fs::exists(paths_.restart_mark()));
    const pid_t before = Pid("gpud");
    RestartRequest request = Of({"gpud"});
    request.kill = kill;
    ASSERT_TRUE(Ask(request).ok());
    EXPECT_EQ(Record("gpud").last_exit->signal, SIGKILL);
    EXPECT_EQ(FileText(paths_.restart_mark()), std::to_string(before) + "\n");
    EXPECT_EQ(fs::status(paths_.restart_mark()).permissions(), fs::perms(0644));
    EXPECT_TRUE(supervisor_->TakeDown().ok());
    ExpectNothingLeft();
  }
}

TEST_F(SupervisorRestartTest, WhatEndsByTheSigtermOfATakedownIsNoCasualty) {
  probe_.devices["a"] = {true, ""};
  Make({"wait"},
       {{.name = "a", .kind = "test", .argv = {"/bin/sleep", "1000"}}});
  ASSERT_TRUE(supervisor_->BringUp().ok()) << said_;
  probe_.devices.clear();
  Client client(paths_, ToJson(Of({"a"})));
  // The new process has not come so far as to handle SIGTERM.
  ASSERT_TRUE(WatchUntil([&] { return Record("a").restarts == 1; }));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  EXPECT_EQ(Record("a").exit->signal, SIGTERM);
  EXPECT_THAT(supervisor_->casualties(), IsEmpty());
}

TEST_F(SupervisorRestartTest, TakesTheSignalThatItSentForAProperEnd) {
  probe_.devices["a"] = {true, ""};
  Make({"wait"},
       {{.name = "a", .kind = "test", .argv = {"/bin/sleep", "1000"}}});
  ASSERT_TRUE(supervisor_->BringUp().ok()) << said_;
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_EQ(Record("a").last_exit->signal, SIGTERM);
  EXPECT_THAT(supervisor_->casualties(), IsEmpty());
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, StartsWhatHasEnded) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  kill(Pid("a"), SIGKILL);
  ASSERT_TRUE(WatchUntil([&] { return Record("a").exit.has_value(); }));
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_EQ(Record("a").last_exit->signal, SIGKILL);
  EXPECT_EQ(Record("a").state, ProcessState::kReady);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, WaitsForNoReadinessThatNobodyReports) {
  MakeUp({"wait"}, {Process("a", {"wait"}, /*wait_ready=*/false)});
  probe_.devices.clear();
  const auto answer = Ask(Of({"a"}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)["restarted"][0]["state"], "running");
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, StartsADeviceWhenGpudHasLetGoOfTheOneBefore) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.devices["a"].pid = Pid("a");
  int asked = 0;
  probe_.on_devices = [&] {
    if (++asked > 3) probe_.devices["a"].pid = 0;
    if (asked <= 4) {
      EXPECT_EQ(Record("a").state, ProcessState::kEnded);
    }
  };
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_EQ(asked, 5);

  // gpud never forgets this device.
  probe_.devices["a"].pid = Pid("a");
  probe_.on_devices = nullptr;
  RestartRequest request = Of({"a"});
  request.timeout = milliseconds(100);
  const absl::Status status = Ask(request).status();
  EXPECT_EQ(status, absl::DeadlineExceededError(
                        "a is not started yet: gpud still has the one before "
                        "after 0.10 s"));
  probe_.devices.clear();
  EXPECT_TRUE(WatchUntil([&] { return Record("a").restarts == 2; }));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, TakesNoReadinessOfAnOlderProcess) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.devices["a"].pid = 1;
  int asked = 0;
  probe_.on_devices = [&] {
    if (++asked == 8) probe_.devices["a"].pid = Pid("a");
  };
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_EQ(asked, 8);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, SaysWhyAProcessDoesNotComeBack) {
  const std::string file = folder_.path() + "/needed";
  std::ofstream(file) << "x";
  MakeUp({"wait"}, {Process("a", {"need", file})});
  probe_.devices["a"].ready = false;
  fs::remove(file);
  const auto answer = Ask(Of({"a"}));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("a ended before it was ready (exit code 3); the "
                              "last lines of its log:\n"),
                    HasSubstr("  | no file")));
  EXPECT_THAT(supervisor_->casualties(), ElementsAre("a (exit code 3)"));
  EXPECT_EQ(supervisor_->state().phase, Phase::kUp);

  std::ofstream(file) << "x";
  probe_.devices["a"].ready = true;
  EXPECT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, WaitsForReadinessWithABoundAndGoesOn) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.devices["a"].ready = false;
  RestartRequest request = Of({"a"});
  request.timeout = milliseconds(100);
  const auto answer = Ask(request);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("a was started, but was not ready within 0.10 s"));
  EXPECT_EQ(Record("a").state, ProcessState::kStarting);
  probe_.devices["a"].ready = true;
  EXPECT_TRUE(
      WatchUntil([&] { return Record("a").state == ProcessState::kReady; }));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, RefusesWhatItDoesNotKnow) {
  MakeUp({"wait"}, {Process("nic0", {"wait"})});
  const absl::Status status = Ask(Of({"gpud", "nci0"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "testbed 'demo' has no process 'nci0'; did you mean 'nic0'?");
  EXPECT_EQ(HintOf(status), "carillon ps --name demo lists them");
  EXPECT_EQ(Record("gpud").restarts, 0u);
  for (const char* bad :
       {"{}", R"({"restart": []})", R"({"restart": "a", "kill": false})",
        R"({"restart": [], "kill": false, "timeout_ms": 1000})",
        R"({"restart": ["nic0"], "kill": 7, "timeout_ms": 1000})",
        R"({"restart": ["nic0"], "kill": false, "timeout_ms": 1e99})",
        R"({"restart": ["nic0"], "kill": false, "timeout_ms": 3600001})",
        R"({"restart": ["nic0"], "kill": false, "timeout_ms": 0})"}) {
    Client client(paths_, Json::parse(bad));
    ASSERT_TRUE(WatchUntil([&] { return client.done(); }));
    EXPECT_EQ(client.answer().status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad << client.answer().status();
  }
  EXPECT_EQ(Record("nic0").restarts, 0u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, RefusesADeviceWithoutGpud) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  kill(Pid("gpud"), SIGKILL);
  ASSERT_TRUE(WatchUntil([&] { return Record("gpud").exit.has_value(); }));
  const absl::Status status = Ask(Of({"a"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "gpud has ended (SIGKILL): a would find no testbed");
  EXPECT_TRUE(Ask(Of({"gpud"})).ok());
  EXPECT_EQ(Record("a").restarts, 0u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, TheDashboardNeedsNoGpud) {
  PlannedProcess dashboard = Process("dashboard", {"wait"});
  dashboard.restart = RestartPolicy::kOnFailure;
  MakeUp({"wait"}, {Process("a", {"wait"}), dashboard},
         {.backoff = {.first = milliseconds(1)}});
  probe_.devices.clear();
  kill(Pid("gpud"), SIGKILL);
  ASSERT_TRUE(WatchUntil([&] { return Record("gpud").exit.has_value(); }));
  kill(Pid("dashboard"), SIGKILL);
  const auto serves = [&](uint32_t restarts) {
    ASSERT_TRUE(
        WatchUntil([&] { return Record("dashboard").restarts == restarts; }));
    EXPECT_EQ(Record("dashboard").state, ProcessState::kStarting);
    std::ofstream(DashboardTokenFile(paths_)) << "0123";
    std::ofstream(DashboardAddressFile(paths_))
        << "http://127.0.0.1:7/ " << Pid("dashboard");
  };
  serves(1);
  EXPECT_THAT(said_, Not(HasSubstr("when gpud is ready again")));
  ASSERT_TRUE(WatchUntil(
      [&] { return Record("dashboard").state == ProcessState::kReady; }));
  EXPECT_EQ(Record("dashboard").note, "http://127.0.0.1:7/");

  Client client(paths_, ToJson(Of({"dashboard"})));
  serves(2);
  ASSERT_TRUE(WatchUntil([&] { return client.done(); }));
  EXPECT_TRUE(client.answer().ok()) << client.answer().status();
  EXPECT_EQ(Ask(Of({"a", "dashboard"})).status().message(),
            "gpud has ended (SIGKILL): a would find no testbed");
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  ExpectNothingLeft();
}

TEST_F(SupervisorRestartTest, RefusesASecondRestartOfTheSameProcess) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.devices["a"].ready = false;
  Client first(paths_, ToJson(Of({"a"})));
  ASSERT_TRUE(WatchUntil([&] { return Record("a").restarts == 1; }));
  EXPECT_EQ(Ask(Of({"a"})).status(),
            absl::FailedPreconditionError("a is being restarted already"));
  probe_.devices["a"].ready = true;
  ASSERT_TRUE(WatchUntil([&] { return first.done(); }));
  EXPECT_TRUE(first.answer().ok()) << first.answer().status();
  EXPECT_EQ(Record("a").restarts, 1u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(SupervisorRestartTest, RefusesWhileTheTestbedComesUp) {
  probe_.gpud_serves = false;
  Make({"wait"}, {});
  std::unique_ptr<Client> client;
  probe_.on_gpud = [&] {
    if (!client)
      client = std::make_unique<Client>(paths_, ToJson(Of({"gpud"})));
    probe_.gpud_serves = client->done();
  };
  ASSERT_TRUE(supervisor_->BringUp().ok()) << said_;
  EXPECT_EQ(client->answer().status(),
            absl::FailedPreconditionError(
                "testbed 'demo' is coming up: wait until it is up"));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

class RestartPolicyTest : public SupervisorRestartTest {
 protected:
  static PlannedProcess OnFailure(PlannedProcess process) {
    process.restart = RestartPolicy::kOnFailure;
    return process;
  }
  // Waits so short that a test need not wait for them.
  static Supervisor::Options Quick() {
    return {.backoff = {.first = milliseconds(1),
                        .longest = milliseconds(2),
                        .proven = std::chrono::hours(1)}};
  }
  // As gpud does that has lost its GPU. It must wait.
  void EndGpud(const RestartMark& mark) {
    std::ofstream(paths_.restart_mark()) << mark.ToLine() << '\n';
    kill(Pid("gpud"), SIGUSR1);
  }
  // Each gpud ends so.
  void ExpectGivesUp(const std::function<RestartMark(pid_t)>& mark) {
    pid_t ended = 0;
    ASSERT_TRUE(WatchUntil([&] {
      if (const pid_t pid = Pid("gpud");
          pid != ended && !Record("gpud").exit &&
          (Record("gpud").state == ProcessState::kReady ||
           !probe_.gpud_serves) &&
          Waits("gpud") == static_cast<int>(Record("gpud").restarts) + 1) {
        EndGpud(mark(ended = pid));
      }
      return Record("gpud").given_up || Record("gpud").restarts > 5;
    })) << said_;
    EXPECT_TRUE(Record("gpud").given_up) << said_;
    EXPECT_EQ(Record("gpud").restarts, 5u);
    supervisor_->TakeDown().IgnoreError();
  }
  void KillAndWaitForTheEnd(const std::string& name) {
    const pid_t pid = Pid(name);
    kill(pid, SIGKILL);
    ASSERT_TRUE(
        WatchUntil([&] { return Record(name).exit || Pid(name) != pid; }));
  }
};

TEST_F(RestartPolicyTest, StartsADeviceAgainThatFails) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"})), Process("b", {"wait"})},
         Quick());
  const pid_t before = Pid("a");
  kill(before, SIGKILL);
  ASSERT_TRUE(WatchUntil([&] {
    return Pid("a") != before && Record("a").state == ProcessState::kReady;
  }));
  EXPECT_THAT(said_, AllOf(HasSubstr("a has ended (SIGKILL)"),
                           HasSubstr("a is started again in "),
                           HasSubstr("(1 of 5 in a row)")));
  EXPECT_EQ(Record("a").restarts, 1u);
  EXPECT_EQ(Record("a").last_exit->signal, SIGKILL);
  // The failure still counts.
  EXPECT_THAT(supervisor_->casualties(), ElementsAre("a (SIGKILL)"));
  // The other process's policy does not apply.
  KillAndWaitForTheEnd("b");
  EXPECT_TRUE(supervisor_->Watch(milliseconds(50)));
  EXPECT_EQ(Record("b").state, ProcessState::kEnded);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  ExpectNothingLeft();
}

// More often than others may fail in a row: each has ended a culprit.
TEST_F(RestartPolicyTest, StartsGpudAgainThatAsksForItWhateverItsPolicy) {
  MakeUp({"again"}, {Process("a", {"wait"})}, Quick());
  const pid_t a = Pid("a");
  for (uint32_t i = 1; i <= 7; ++i) {
    EndGpud({.pid = Pid("gpud"), .named = true});
    ASSERT_TRUE(WatchUntil([&] {
      return Record("gpud").restarts == i &&
             Record("gpud").state == ProcessState::kReady &&
             Waits("gpud") == static_cast<int>(i) + 1;
    })) << said_;
    EXPECT_EQ(Record("gpud").last_exit->code, 75);
  }
  EXPECT_EQ(Pid("a"), a);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, OnlyGpudMayAskForIt) {
  MakeUp({"wait"}, {Process("a", {"again"})}, Quick());
  kill(Pid("a"), SIGUSR1);
  ASSERT_TRUE(WatchUntil([&] { return Record("a").exit.has_value(); }));
  EXPECT_TRUE(supervisor_->Watch(milliseconds(50)));
  EXPECT_EQ(Record("a").restarts, 0u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

// A GPU that is broken for good, whether gpud gets so far as to serve or not.
TEST_F(RestartPolicyTest, GivesUpOnAGpudThatAsksForItAndHelpsNobody) {
  for (const bool serves : {false, true}) {
    MakeUp({"again"}, {}, Quick());
    probe_.gpud_serves = serves;
    ExpectGivesUp([](pid_t pid) { return RestartMark{.pid = pid}; });
    probe_.gpud_serves = true;
  }
}

// The word of the one before is not its own.
TEST_F(RestartPolicyTest, GivesUpThoughAnEarlierGpudHasNamedACulprit) {
  MakeUp({"again"}, {}, Quick());
  const RestartMark first{.pid = Pid("gpud"), .named = true};
  ExpectGivesUp([&](pid_t) { return first; });
}

// Each was ready for longer than proves one, and has hung for all of that.
TEST_F(RestartPolicyTest, GivesUpOnAGpudThatHangsEachTime) {
  Supervisor::Options options = Quick();
  options.backoff.proven = milliseconds(1);
  MakeUp({"again"}, {}, options);
  ExpectGivesUp([](pid_t pid) {
    return RestartMark{.pid = pid, .stood_still = std::chrono::hours(1)};
  });
}

TEST_F(RestartPolicyTest, LetsAProperEndBe) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))}, Quick());
  kill(Pid("a"), SIGTERM);
  ASSERT_TRUE(WatchUntil([&] { return Record("a").exit.has_value(); }));
  EXPECT_TRUE(Record("a").exit->ok());
  EXPECT_TRUE(supervisor_->Watch(milliseconds(50)));
  EXPECT_EQ(Record("a").restarts, 0u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, WaitsBeforeItStartsAgain) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))},
         {.backoff = {.first = milliseconds(200)}});
  KillAndWaitForTheEnd("a");
  const auto ended = std::chrono::steady_clock::now();
  ASSERT_TRUE(WatchUntil([&] { return Record("a").restarts == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - ended, milliseconds(150));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, ADeviceWaitsForTheLinkOfItsHostAndIsNotGivenUp) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))}, Quick());
  probe_.link = absl::UnavailableError("down: Connection refused");
  KillAndWaitForTheEnd("a");
  const std::string waits =
      "a waits for the link to the GPU's host, which is down: Connection "
      "refused\n";
  ASSERT_TRUE(WatchUntil([&] { return said_.find(waits) != said_.npos; }));
  // Whoever asks for it hears why it does not come.
  RestartRequest asked = Of({"a"});
  asked.timeout = milliseconds(300);
  EXPECT_EQ(Ask(asked).status(),
            absl::DeadlineExceededError(
                "a is not started yet: the link to the GPU's host is down: "
                "Connection refused, after 0.30 s"));
  EXPECT_EQ(Record("a").restarts, 0u);
  EXPECT_FALSE(Record("a").given_up);
  // The peer is there again, and another one has this host's place.
  probe_.link = absl::UnavailableError("down: host 'a' is refused");
  ASSERT_TRUE(WatchUntil([&] {
    return said_.find("which is down: host 'a' is refused\n") != said_.npos;
  }));
  probe_.link = absl::OkStatus();
  ASSERT_TRUE(WatchUntil([&] { return Waits("a") == 2; }));
  EXPECT_EQ(Record("a").restarts, 1u);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, GivesUpAndSaysSoAndTriesAgainWhenAsked) {
  const std::string file = folder_.path() + "/needed";
  std::ofstream(file) << "x";
  MakeUp({"wait"}, {OnFailure(Process("a", {"need", file}))}, Quick());
  probe_.devices["a"].ready = false;
  fs::remove(file);
  kill(Pid("a"), SIGKILL);
  ASSERT_TRUE(WatchUntil([&] { return Record("a").given_up; }));
  EXPECT_EQ(Record("a").restarts, 5u);
  EXPECT_EQ(Record("a").exit->code, 3);
  EXPECT_THAT(said_,
              HasSubstr("a is given up: 5 restarts in a row did not help; once "
                        "more: carillon restart --name demo a\n"));
  EXPECT_TRUE(ReadState(paths_.state_file())->processes[1].given_up);
  EXPECT_THAT(supervisor_->casualties(),
              ElementsAre("a (SIGKILL)", "a (exit code 3)"));
  EXPECT_TRUE(supervisor_->Watch(milliseconds(20)));
  EXPECT_EQ(Record("a").restarts, 5u);

  std::ofstream(file) << "x";
  probe_.devices["a"].ready = true;
  ASSERT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_FALSE(Record("a").given_up);
  // This process has a row of its own.
  KillAndWaitForTheEnd("a");
  ASSERT_TRUE(WatchUntil([&] { return Record("a").restarts == 7; }));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, CountsAnewAfterALongEnoughRun) {
  constexpr milliseconds kProven{5};
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))},
         {.backoff = {
              .first = milliseconds(1), .proven = kProven, .in_a_row = 1}});
  for (uint32_t i = 1; i <= 3; ++i) {
    const auto ready = std::chrono::steady_clock::now();
    ASSERT_TRUE(WatchUntil(
        [&] { return std::chrono::steady_clock::now() - ready > kProven; }));
    KillAndWaitForTheEnd("a");
    ASSERT_TRUE(WatchUntil([&] {
      return Record("a").restarts == i &&
             Record("a").state == ProcessState::kReady;
    })) << said_;
  }
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

// Devices that end because gpud ended follow their own policies, and are not
// started before gpud serves.
TEST_F(RestartPolicyTest, StartsGpudAgainAndThenItsDevices) {
  probe_.devices = {{"a", {true, ""}}, {"b", {true, ""}}};
  PlannedProcess gpud = OnFailure(Process("gpud", {"wait"}));
  MakeWith(gpud, {OnFailure(Process("a", {"wait"})), Process("b", {"wait"})},
           Quick());
  ASSERT_TRUE(supervisor_->BringUp().ok()) << said_;
  said_.clear();
  const pid_t a = Pid("a");
  probe_.gpud_serves = false;
  kill(Pid("gpud"), SIGKILL);
  int asked = 0;
  probe_.on_gpud = [&] {
    for (const char* name : {"a", "b"}) {
      if (!Record(name).exit) kill(Pid(name), SIGKILL);
    }
    if (!Record("a").exit || !Record("b").exit) return;
    EXPECT_THAT(Running(), SizeIs(1));
    probe_.gpud_serves = ++asked == 5;
  };
  ASSERT_TRUE(WatchUntil([&] {
    return Pid("a") != a && Record("a").state == ProcessState::kReady;
  }));
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(Record("gpud").restarts, 1u);
  EXPECT_EQ(Record("a").restarts, 1u);
  EXPECT_EQ(Record("b").restarts, 0u);
  EXPECT_EQ(Record("b").state, ProcessState::kEnded);
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, SaysThatItIsNotReadyInTime) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))},
         {.ready_budget = milliseconds(100),
          .backoff = {.first = milliseconds(1)}});
  probe_.devices["a"].ready = false;
  kill(Pid("a"), SIGKILL);
  ASSERT_TRUE(WatchUntil([&] {
    return said_.find("a was started, but was not ready within 0.10 s") !=
           std::string::npos;
  }));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, ARequestDoesNotWaitOutTheBackOff) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))},
         {.backoff = {.first = std::chrono::hours(1),
                      .longest = std::chrono::hours(1)}});
  KillAndWaitForTheEnd("a");
  EXPECT_TRUE(Ask(Of({"a"})).ok());
  EXPECT_TRUE(supervisor_->TakeDown().ok());
}

TEST_F(RestartPolicyTest, ABringUpThatFailsIsNotTriedAgain) {
  probe_.devices = {{"a", {false, ""}}};
  Make({"wait"}, {OnFailure(Process("a", {"exit", "3"}))}, Quick());
  EXPECT_EQ(supervisor_->BringUp().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Record("a").restarts, 0u);
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(RestartPolicyTest, NothingComesBackWhenTheTestbedEnds) {
  MakeUp({"wait"}, {OnFailure(Process("a", {"wait"}))},
         {.backoff = {.first = milliseconds(50)}});
  KillAndWaitForTheEnd("a");
  raise(SIGTERM);
  EXPECT_FALSE(supervisor_->Watch(milliseconds(1000)));
  EXPECT_TRUE(supervisor_->TakeDown().ok());
  EXPECT_EQ(Record("a").restarts, 0u);
  ExpectNothingLeft();
}

// The testbed is asked to end in each stage of a restart.
class EndDuringARestart : public SupervisorRestartTest {
 protected:
  void EndAndExpectNothingLeft(Client& client) {
    const size_t narrated = said_.size();
    raise(SIGTERM);
    EXPECT_FALSE(supervisor_->Watch(milliseconds(10'000)));
    EXPECT_TRUE(supervisor_->TakeDown().ok());
    EXPECT_THAT(said_.substr(narrated), Not(HasSubstr("ready")));
    ExpectNothingLeft();
    ASSERT_TRUE(Eventually([&] { return client.done(); }));
    EXPECT_EQ(client.answer().status(),
              absl::AbortedError("testbed 'demo' is going down"));
  }
};

TEST_F(EndDuringARestart, WhileTheProcessEnds) {
  MakeUp({"wait"}, {Process("a", {"stubborn"})},
         {.device_grace = milliseconds(300)});
  Client client(paths_, ToJson(Of({"a", "gpud"})));
  ASSERT_TRUE(
      WatchUntil([&] { return said_.find("as asked") != std::string::npos; }));
  EndAndExpectNothingLeft(client);
}

TEST_F(EndDuringARestart, WhileADeviceWaitsForGpud) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.gpud_serves = false;
  Client client(paths_, ToJson(Of({"a", "gpud"})));
  ASSERT_TRUE(WatchUntil([&] { return Record("gpud").restarts == 1; }));
  EndAndExpectNothingLeft(client);
}

TEST_F(EndDuringARestart, WhileADeviceStarts) {
  MakeUp({"wait"}, {Process("a", {"wait"})});
  probe_.devices["a"].ready = false;
  Client client(paths_, ToJson(Of({"a"})));
  ASSERT_TRUE(WatchUntil([&] { return Record("a").restarts == 1; }));
  EndAndExpectNothingLeft(client);
}

}  // namespace
}  // namespace carillon::testbed
