#include "tools/cli/testbed/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tools/cli/testbed/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::HasSubstr;

TestbedState Example() {
  TestbedState state;
  state.testbed = "demo";
  state.phase = "up";
  state.topology_file = "lab.yaml";
  state.supervisor = {12, 34};
  state.started_unix = 1'790'000'000;
  state.processes = {{.name = "gpud",
                      .kind = "gpud",
                      .command = {"/bin/gpud", "--dir=/x"},
                      .identity = {56, 78},
                      .state = "ready",
                      .note = "cpu back-end",
                      .log = "/x/logs/gpud.log"},
                     {.name = "nic0",
                      .kind = "nic",
                      .identity = {90, 91},
                      .state = "ended",
                      .exit = ExitReport{.signal = SIGKILL}},
                     {.name = "fpga0",
                      .kind = "fpga",
                      .state = "ended",
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
  EXPECT_EQ(state->processes[2].exit->code, 4);
  EXPECT_FALSE(state->processes[0].exit);
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
  for (const char* text : {"", "{", "[]", "3", "{\"version\": 1}",
                           "{\"version\": 1, \"testbed\": 5}"}) {
    std::ofstream(path) << text;
    const auto state = ReadState(path);
    EXPECT_EQ(state.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(state.status().message()),
                HasSubstr(path + " is damaged: "))
        << text;
  }
  std::ofstream(path) << "{\"version\": 99}";
  EXPECT_EQ(ReadState(path).status().message(),
            path + " is of version 99; this carillon reads 1");
}

}  // namespace
}  // namespace carillon::cli
