// What a dashboard that has told of a million records holds, and what it says
// where it cannot tell.
#include "tools/dashboard/recorder_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/dashboard/test_http_client.h"
#include "tools/testbed/supervisor/test_util.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::dashboard {
namespace {

using ::testing::HasSubstr;

constexpr char kDashboard[] = "tools/dashboard/dashboard";
constexpr uint32_t kEvents = 1 << 19;
// The dashboard holds some 25 MiB; the records alone are 32, and hundreds while
// they are judged or drawn.
constexpr uint64_t kMostKib = 96 << 10;

// The most that a process has held, KiB.
uint64_t PeakOf(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib;
  }
  ADD_FAILURE() << "no VmHWM of " << pid;
  return 0;
}

class RecorderReaderTest : public ::testing::Test {
 protected:
  // A device that has rung and taken so many events, two records each.
  void Record(uint32_t events) {
    auto made = shm::FlightRecorder::Create(testbed_.paths.recorder_directory(),
                                            "nic0", 2 * uint64_t{events} + 2);
    ASSERT_TRUE(made.ok()) << made.status();
    recorder_ = *std::move(made);
    const shm::Generation ring(7);
    recorder_->NameRing(3, ring, "nic0", "echo", "a");
    recorder_->Record(shm::Step::kRegistered, 3, ring, 0,
                      shm::EventState::kNone, 16);
    for (uint32_t i = 1; i <= events; ++i) {
      recorder_->Record(shm::Step::kRung, 3, ring, i, shm::EventState::kNone,
                        1);
      recorder_->Record(shm::Step::kTaken, 3, ring, i, shm::EventState::kDone);
    }
  }

  testbed::TestFolder folder_;
  const testbed::Testbed testbed_{"lab", TestbedPaths(folder_.path()), {}};
  std::unique_ptr<shm::FlightRecorder> recorder_;
};

TEST_F(RecorderReaderTest, AMillionRecordsAreToldWithoutBeingHeld) {
  Record(kEvents);
  auto dashboard = LineProcess::Start(
      {.argv = {kDashboard, "--dir", folder_.path(), "--testbed", "lab"}});
  ASSERT_TRUE(dashboard.ok()) << dashboard.status();
  const auto line = dashboard->ReadLine(std::chrono::seconds(60));
  ASSERT_TRUE(line.ok()) << line.status();
  const size_t port_at = line->find("127.0.0.1:") + 10;
  const uint16_t port =
      static_cast<uint16_t>(std::stoul(line->substr(port_at)));
  const std::string token = line->substr(line->find("token=") + 6);
  const auto get = [&](const std::string& target) {
    Client client(port);
    client.Send(
        fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: "
                    "Bearer {}\r\nConnection: close\r\n\r\n",
                    target, port, token));
    const std::string answer = client.ReadAll();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer.substr(0, 999);
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };

  const Json story = Json::parse(get("/api/v1/story"), nullptr, false);
  ASSERT_TRUE(story.is_object());
  EXPECT_EQ(story["events"]["ok"], kEvents) << story["events"];
  EXPECT_EQ(story["verdict"], "ok") << story["violations"];
  EXPECT_EQ(story["steps"].size(), 400u);
  EXPECT_EQ(story["earlier_steps"], 2 * kEvents + 1 - 400);
  EXPECT_LT(PeakOf(dashboard->pid()), kMostKib) << "after the story";

  EXPECT_GT(get("/api/v1/trace.pftrace").size(), size_t{kEvents} * 20);
  EXPECT_LT(PeakOf(dashboard->pid()), kMostKib) << "after the trace";
  dashboard->End(SIGTERM, std::chrono::seconds(10));
}

TEST_F(RecorderReaderTest, WithoutRecordersItSaysHowToGetThem) {
  RecorderReader reader(kDashboard, testbed_);
  for (const absl::Status& status :
       {reader.Story().status(), reader.Trace(10).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(HintOf(status), HasSubstr("record: 4096"));
  }
}

TEST_F(RecorderReaderTest, ARecorderThatCannotBeReadIsNamed) {
  Record(64);
  const std::string other = testbed_.paths.recorder_directory() + "/b-1.rec";
  std::ofstream(other) << "no recorder";
  RecorderReader reader(kDashboard, testbed_);
  const auto story = reader.Story();
  ASSERT_TRUE(story.ok()) << story.status();
  EXPECT_THAT((*story)["unreadable"].dump(), HasSubstr(other));
  const absl::Status trace = reader.Trace(10).status();
  EXPECT_EQ(trace.code(), absl::StatusCode::kFailedPrecondition) << trace;
  EXPECT_THAT(std::string(trace.message()), HasSubstr(other));
}

TEST_F(RecorderReaderTest, AReaderThatEndsBadlyIsAnError) {
  RecorderReader reader("/bin/false", testbed_);
  const absl::Status status = reader.Story().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("exit code 1"));
  EXPECT_THAT(HintOf(status), HasSubstr("carillon postmortem"));
}

// In place of the reader: what RecorderReader starts and gives to it.
class ScriptedReaderTest : public RecorderReaderTest {
 protected:
  // `commands`: of a shell, whose stdout is the answer.
  std::string Script(const std::string& commands) {
    const std::string path = folder_.path() + "/reader.sh";
    std::ofstream(path) << "#!/bin/sh\n" << commands;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
};

constexpr char kAnswer[] =
    R"({"code": 0, "message": "", "hint": "", "value": {}})";

TEST_F(ScriptedReaderTest, WhatItIsGivenToWriteHasNoName) {
  const std::string seen = folder_.path() + "/seen";
  RecorderReader reader(
      Script(
          // But stderr, which is the test's own.
          fmt::format("ls -l /proc/$$/fd | grep /tmp/ | grep -v ' 2 -> ' | "
                      "grep -v reader.sh >> {}\necho '{}'\n",
                      seen, kAnswer)),
      testbed_);
  EXPECT_TRUE(reader.Story().ok());
  const auto trace = reader.Trace(10);
  EXPECT_TRUE(trace.ok()) << trace.status();
  std::ifstream lines(seen);
  int files = 0;
  for (std::string line; std::getline(lines, line); ++files) {
    EXPECT_TRUE(line.ends_with(" (deleted)")) << line;
  }
  // The answer twice, and a trace.
  EXPECT_EQ(files, 3);
}

TEST_F(ScriptedReaderTest, AThirdReadIsRefusedAndTheSecondWaits) {
  const std::string began = folder_.path() + "/began";
  const std::string goes_on = folder_.path() + "/goes_on";
  ASSERT_EQ(mkfifo(goes_on.c_str(), 0600), 0);
  RecorderReader reader(Script(fmt::format("echo >> {}\nread line < {}\n"
                                           "echo '{}'\n",
                                           began, goes_on, kAnswer)),
                        testbed_);
  const auto begun = [&] {
    std::ifstream file(began);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  std::vector<std::future<absl::Status>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::async(std::launch::async,
                             [&] { return reader.Story().status(); }));
  }
  // Whichever comes third ends, and no other does.
  const auto refused = [&] {
    return std::ranges::find_if(all, [](const auto& one) {
      return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
  };
  EXPECT_TRUE(Eventually([&] { return refused() != all.end(); }));
  EXPECT_TRUE(Eventually([&] { return begun() == 1; }));
  if (const auto one = refused(); one != all.end()) {
    const absl::Status status = one->get();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(HintOf(status), HasSubstr("ask again"));
    all.erase(one);
  }
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    EXPECT_TRUE(Eventually([&] { return begun() == i + 1; }));
    std::ofstream(goes_on) << "\n";
  }
  for (auto& one : all) EXPECT_TRUE(one.get().ok());
}

TEST_F(RecorderReaderTest, ATraceEndsWhereItIsTooLarge) {
  Record(1 << 16);
  RecorderReader reader(kDashboard, testbed_);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;  // what the process that reads takes over
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = reader.Trace(600).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("1048576 bytes"));
  EXPECT_THAT(HintOf(status), HasSubstr("fewer seconds"));
  const auto whole = reader.Trace(600);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_GT((*whole)->bytes, size_t{1} << 20);
}

}  // namespace
}  // namespace carillon::dashboard
