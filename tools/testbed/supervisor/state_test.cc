#include "tools/testbed/supervisor/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <tuple>

#include "base/json.h"
#include "base/status.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TestbedState Example() {
  TestbedState state;
  state.testbed = "demo";
  state.phase = Phase::kUp;
  state.topology_file = "lab.yaml";
  state.supervisor = {12, 34};
  state.started_unix = 1'790'000'000;
  state.processes = {{.name = "gpud",
                      .kind = "gpud",
                      .command = {"/bin/gpud", "--dir=/x"},
                      .identity = {56, 78},
                      .state = ProcessState::kReady,
                      .note = "cpu back-end",
                      .log = "/x/logs/gpud.log"},
                     {.name = "nic0",
                      .kind = "nic",
                      .identity = {90, 91},
                      .state = ProcessState::kEnded,
                      .exit = ExitReport{.signal = SIGKILL},
                      .restarts = 3,
                      .last_exit = ExitReport{.code = 4},
                      .restart = RestartPolicy::kOnFailure,
                      .given_up = true},
                     {.name = "fpga0",
                      .kind = "fpga",
                      .state = ProcessState::kEnded,
                      .exit = ExitReport{.code = 4}}};
  return state;
}

TEST(TestbedState, IsReadAsItWasWritten) {
  TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  ASSERT_TRUE(WriteState(path, Example()).ok());
  const auto state = ReadState(path);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(ToJson(*state), ToJson(Example()));
  EXPECT_EQ(state->processes[1].exit->signal, SIGKILL);
  EXPECT_EQ(state->processes[1].restarts, 3u);
  EXPECT_EQ(state->processes[1].last_exit->code, 4);
  EXPECT_EQ(state->processes[1].restart, RestartPolicy::kOnFailure);
  EXPECT_TRUE(state->processes[1].given_up);
  EXPECT_FALSE(state->processes[0].given_up);
  EXPECT_EQ(state->processes[2].exit->code, 4);
  EXPECT_FALSE(state->processes[0].exit);
}

TEST(TestbedState, HasHostsWhereThereAreSome) {
  TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  EXPECT_FALSE(ToJson(Example()).contains("hosts"));
  TestbedState state = Example();
  state.host = "b";
  state.engine = "ucx";
  state.etcd = {.name = "etcd",
                .kind = "etcd",
                .identity = {21, 22},
                .state = ProcessState::kReady,
                .restarts = 1};
  state.hosts = {{.name = "a", .devices = {"nic0", "nic1"}},
                 {.name = "b", .address = "10.0.0.6:4711", .has_gpu = true}};
  ASSERT_TRUE(WriteState(path, state).ok());
  const auto read = ReadState(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), ToJson(state));
  EXPECT_EQ(read->engine, "ucx");
  EXPECT_EQ(read->etcd->identity, state.etcd->identity);
  EXPECT_FALSE(ToJson(Example()).contains("etcd"));
  EXPECT_EQ(read->hosts[0].devices[1], "nic1");
  EXPECT_TRUE(read->hosts[1].has_gpu);
}

TEST(TestbedState, TellsOnWhichHostAProcessIs) {
  TestbedState state = Example();
  state.host = "a";
  state.hosts = {{.name = "a", .devices = {"nic0"}},
                 {.name = "b", .has_gpu = true, .devices = {"fpga0"}}};
  const auto is_here = [&](std::string_view process) {
    const absl::Status status = CheckIsHere(state, process, "logs");
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    return status.ok();
  };
  for (const char* process : {"fpga0", "linkd-a", "b/fpga0", "b/linkd-a",
                              "b/gpud", "b/supervisor", "b/dashboard"}) {
    EXPECT_FALSE(is_here(process)) << process;
  }
  // It says nothing of what is on no host.
  for (const char* process :
       {"nic0", "gpud", "nobody", "linkd-c", "a/nobody", "b/nobody", "b/nic0",
        "b/linkd-b", "b/linkd-c", "c/gpud", "b/", "/gpud"}) {
    EXPECT_TRUE(is_here(process)) << process;
  }
}

TEST(TestbedState, DropsTheNameOfItsOwnHostOnly) {
  TestbedState state = Example();
  EXPECT_EQ(WithoutOwnHost(state, "/gpud"), "/gpud") << "it has no host";
  state.host = "a";
  for (const auto& [process, name] :
       {std::pair("a/gpud", "gpud"), std::pair("gpud", "gpud"),
        std::pair("a", "a"), std::pair("a/", ""), std::pair("b/gpud", "b/gpud"),
        std::pair("aa/gpud", "aa/gpud"), std::pair("a/a/x", "a/x")}) {
    EXPECT_EQ(WithoutOwnHost(state, process), name) << process;
  }
}

TEST(TestbedState, KeepsEveryPhaseAndProcessState) {
  TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  for (const auto& [phase, text] :
       {std::pair(Phase::kStarting, "starting"), std::pair(Phase::kUp, "up"),
        std::pair(Phase::kStopping, "stopping"),
        std::pair(Phase::kFailed, "failed")}) {
    TestbedState state = Example();
    state.phase = phase;
    EXPECT_EQ(ToJson(state)["phase"], text);
    ASSERT_TRUE(WriteState(path, state).ok());
    EXPECT_EQ(ReadState(path)->phase, phase);
  }
  for (const auto& [process, text] :
       {std::pair(ProcessState::kStarting, "starting"),
        std::pair(ProcessState::kReady, "ready"),
        std::pair(ProcessState::kRunning, "running"),
        std::pair(ProcessState::kEnded, "ended")}) {
    TestbedState state = Example();
    state.processes[0].state = process;
    EXPECT_EQ(ToJson(state)["processes"][0]["state"], text);
    ASSERT_TRUE(WriteState(path, state).ok());
    EXPECT_EQ(ReadState(path)->processes[0].state, process);
  }
}

TEST(TestbedState, IsNeverSeenHalfWritten) {
  TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  ASSERT_TRUE(WriteState(path, Example()).ok());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) EXPECT_TRUE(WriteState(path, Example()).ok());
  });
  for (int i = 0; i < 500; ++i) {
    const auto state = ReadState(path);
    EXPECT_TRUE(state.ok()) << state.status();
  }
  stop = true;
  writer.join();
}

TEST(TestbedState, SaysWhatIsWrongWithADamagedFile) {
  TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  EXPECT_EQ(ReadState(path).status().code(), absl::StatusCode::kNotFound);
  for (const char* text : {"", "{", "[]", "3", "{\"version\": 2}",
                           "{\"version\": 2, \"testbed\": 5}"}) {
    std::ofstream(path) << text;
    const auto state = ReadState(path);
    EXPECT_EQ(state.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(state.status().message()),
                AnyOf(path + " is damaged: it is no JSON",
                      path + " is damaged: a field is missing or of another "
                             "type"))
        << text;
    EXPECT_THAT(HintOf(state.status()), HasSubstr("carillon cleanup"));
  }
  Json unknown = ToJson(Example());
  unknown["phase"] = "flying";
  std::ofstream(path) << unknown;
  EXPECT_EQ(ReadState(path).status().message(),
            path + " is damaged: 'flying' is no phase");
  unknown = ToJson(Example());
  unknown["processes"][1]["state"] = "tired";
  std::ofstream(path) << unknown;
  EXPECT_EQ(ReadState(path).status().message(),
            path + " is damaged: 'tired' is no state");
  std::ofstream(path) << "{\"version\": 99}";
  EXPECT_EQ(ReadState(path).status().message(),
            path + " is of version 99; this carillon reads 2");
}

TEST(TestbedState, NumbersThatItDoesNotWriteAreRefused) {
  const TestFolder folder;
  const std::string path = folder.path() + "/state.json";
  TestbedState state;
  state.processes.emplace_back();
  for (const auto& [where, number, what] :
       {std::tuple{"/supervisor/pid", "4294967297", "pid is 4294967297"},
        {"/supervisor/start_ticks", "1e300", "start_ticks is 1e+300"},
        {"/supervisor/start_ticks", "-1", "start_ticks is -1"},
        {"/started_unix", "true", "started_unix is true"},
        {"/processes/0/pid", "-2147483649", "pid is -2147483649"},
        {"/processes/0/restarts", "4294967296", "restarts is 4294967296"},
        {"/processes/0/exit", R"({"code": 1.5})", "code is 1.5"},
        {"/processes/0/last_exit", R"({"number": 1e99})", "number is 1e+99"}}) {
    auto json = ToJson(state);
    json[Json::json_pointer(where)] = Json::parse(number);
    std::ofstream(path) << json;
    const auto read = ReadState(path);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr(std::string(what) + ", which it cannot be"))
        << where;
  }
}

}  // namespace
}  // namespace carillon::testbed
