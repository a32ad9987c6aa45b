// Runs the program: each policy has its row, what is wrong is refused, and
// simulated time gives the same numbers twice. No number of wall time is judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/temp_directory.h"
#include "tools/bench/sharing/sharing_run.h"

namespace carillon::bench {
namespace {

using ::testing::HasSubstr;

// A run's output, its messages too, and its exit code.
std::pair<std::string, int> Output(const std::string& options) {
  FILE* const pipe =
      popen(("tools/bench/sharing_bench --quick " + options).c_str(), "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  const int status = pclose(pipe);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

Json Measure(const std::string& options) {
  const auto [text, code] = Output(options + " --json");
  EXPECT_EQ(code, 0);
  Json document = Json::parse(text, nullptr, false);
  EXPECT_TRUE(document.is_object()) << text;
  return document.is_object() ? document : Json::object();
}

// Whatever the clock is.
void ExpectEveryPolicy(const Json& document, const std::string& backend) {
  EXPECT_EQ(document.at("bench"), "sharing");
  EXPECT_EQ(document.at("backend"), backend);
  EXPECT_FALSE(document.at("conditions").empty());
  std::set<std::string> policies;
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.at("policy").get<std::string>());
    policies.insert(cell.at("policy"));
    if (cell.at("policy") == "ptb") {  // which only cuda has
      EXPECT_EQ(cell.at("status"), "refused");
      continue;
    }
    ASSERT_EQ(cell.at("status"), "measured") << cell;
    EXPECT_GT(cell.at("response_us").at("samples"), 0);
    EXPECT_GT(cell.at("response_us").at("p50"), 0);
    EXPECT_GE(cell.at("response_us").at("p99"),
              cell.at("response_us").at("p50"));
    EXPECT_LE(cell.at("preemption_us").at("p99"),
              cell.at("response_us").at("p99"));
    EXPECT_GT(cell.at("background_us"), 0);
    EXPECT_GT(cell.at("antt"), 0);
    EXPECT_GT(cell.at("stp"), 0);
  }
  EXPECT_EQ(policies, std::set<std::string>(kSharingPolicies.begin(),
                                            kSharingPolicies.end()));
  ASSERT_EQ(document.at("pending").size(), 7u);
  for (const Json& row : document.at("pending")) {
    EXPECT_EQ(row.at("pending").size(), 1u) << row;
  }
  EXPECT_EQ(document.at("losses").size(), 3u);
  EXPECT_EQ(document.at("copies").size(), 5u);
  EXPECT_EQ(document.at("video").size(), 4u);
  EXPECT_EQ(document.at("orders").size(), 3u);
  EXPECT_EQ(document.at("floods").size(), 16u);
  for (const char* part : {"video", "orders", "floods"}) {
    for (const Json& row : document.at(part)) {
      EXPECT_EQ(row.at("status"), "measured") << row;
    }
  }
  for (const Json& other : document.at("others")) {
    EXPECT_EQ(other.at("status"), "not measured");
    EXPECT_THAT(other.at("reason").get<std::string>(), HasSubstr("on PATH"));
  }
  EXPECT_FALSE(document.at("summary").empty());
}

double NumberOf(const Json& document, const char* policy, const char* at) {
  for (const Json& cell : document.at("cells")) {
    if (cell.at("policy") == policy) {
      return cell.at(Json::json_pointer(at)).get<double>();
    }
  }
  ADD_FAILURE() << "no " << policy;
  return 0;
}

TEST(SharingBench, SimulatedTimeGivesEveryPolicyTheSameNumbersTwice) {
  Json first = Measure("--backend sim");
  ExpectEveryPolicy(first, "sim");
  // Orders that the policies promise: those that let an event wait for one block
  // at most, or none, beside the one that lets it wait for all before it.
  for (const char* urgent : {"priority", "p1", "p2", "reservation"}) {
    EXPECT_LT(NumberOf(first, urgent, "/preemption_us/p99"),
              NumberOf(first, "first_come", "/preemption_us/p99"))
        << urgent;
  }
  // Each place begins a new block when its last one ends.
  EXPECT_LE(NumberOf(first, "p2", "/background_kept"),
            NumberOf(first, "first_come", "/background_kept"));
  const Json& waits = first.at("pending");
  EXPECT_LT(waits.at(6).at("worst"), waits.at(0).at("worst")) << waits;
  // A video is late by a kernel that is longer than its frame, but where the next
  // block or slice can be the video's.
  const auto tardiness = [&](const char* policy) {
    for (const Json& row : first.at("video")) {
      if (row.at("policy") == policy) return row.at("tardiness").get<double>();
    }
    return -1.0;
  };
  EXPECT_LT(tardiness("gpes"), tardiness("exclusive"));
  EXPECT_LT(tardiness("priority"), tardiness("first_come"));
  // So it is with a flood, for whoever is more urgent.
  for (const Json& row : first.at("floods")) {
    const bool urgent_first =
        row.at("policy") == "gpes" || row.at("policy") == "priority";
    if (row.at("flood") != "LARGE") continue;
    if (urgent_first && row.at("priority") != 0) {
      EXPECT_LT(row.at("slowed_percent"), 50) << row;
    } else {
      EXPECT_GT(row.at("slowed_percent"), 50) << row;
    }
  }
  // A slice of blocks that differ waits for its slowest one.
  EXPECT_GT(first.at("losses").at(2).at("loss_percent"), 0);
  for (const std::string_view policy : kSharingPolicies) {
    EXPECT_THAT(SharingTables(first), HasSubstr(std::string(policy)));
  }
  Json again = Measure("--backend sim");
  for (Json* document : {&first, &again}) {
    document->erase("when");
    document->erase("machine");
  }
  EXPECT_EQ(first, again);
}

TEST(SharingBench, CpuCoresGiveEveryPolicyARow) {
  const TempDirectory directory;
  const Json document =
      Measure("--backend cpu --out " + directory.path() + "/out");
  ExpectEveryPolicy(document, "cpu");
  std::ifstream file(directory.path() + "/out/sharing.json");
  EXPECT_EQ(Json::parse(file, nullptr, false), document);
}

// The cuda back-end, on the driver that executes PTX on this machine: a program.
std::string GpudOnSim(const TempDirectory& directory) {
  const std::string gpud = directory.path() + "/gpud";
  std::ofstream(gpud) << "#!/bin/sh\nexec "
                      << std::filesystem::current_path().string()
                      << "/gpu_daemon/gpud \"$@\" --driver sim\n";
  std::filesystem::permissions(gpud, std::filesystem::perms::owner_all);
  return gpud;
}

TEST(SharingBench, PoliciesThatTheBackEndLacksAreRowsWithGpudsReason) {
#ifndef CARILLON_HAVE_CUDA
  GTEST_SKIP() << "built without the CUDA toolkit";
#endif
  const TempDirectory directory;
  const Json document =
      Measure("--backend cuda --policies p1,p2 --preempt-us 300 --gpud " +
              GpudOnSim(directory));
  EXPECT_THAT(document.at("conditions").dump(), HasSubstr("at most 300 us"));
  EXPECT_EQ(document.at("driver"), "simulated GPU's driver: function only");
  ASSERT_EQ(document.at("cells").size(), 2u);
  for (const Json& cell : document.at("cells")) {
    EXPECT_EQ(cell.at("status"), "refused");
    EXPECT_THAT(
        cell.at("reason").get<std::string>(),
        HasSubstr("can do: priority, reservation, exclusive, gpes, ptb"));
  }
  EXPECT_EQ(document.at("copies").size(), 5u);
  // Of its times nothing is hoped.
  EXPECT_TRUE(document.at("summary").empty());
}

// On the driver made of CPU threads, with the places of one SM: its blocks run one
// after another, so a wave of a whole GPU's would take seconds.
TEST(SharingBench, CudaHasRowsOfTheChosenPartsAndPoliciesAndNoFigures) {
#ifndef CARILLON_HAVE_CUDA
  GTEST_SKIP() << "built without the CUDA toolkit";
#endif
  const std::string fake =
      std::filesystem::absolute("gpu_daemon/backends/cuda/fake").string();
  setenv("LD_LIBRARY_PATH", fake.c_str(), 1);
  setenv("CARILLON_FAKE_CUDA", "sms=1", 1);
  const Json document = Measure(
      "--backend cuda --parts load,losses --policies "
      "gpes,ptb,p1,reservation");
  unsetenv("CARILLON_FAKE_CUDA");
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(document.at("driver"), "fake driver: function only");
  EXPECT_TRUE(document.at("summary").empty());
  EXPECT_THAT(document.at("conditions").dump(),
              HasSubstr("places for blocks: 32; events of 16 blocks"));
  ASSERT_EQ(document.at("cells").size(), 4u);
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.dump());
    if (cell.at("policy") == "p1" || cell.at("policy") == "reservation") {
      EXPECT_EQ(cell.at("status"), "refused");
      continue;
    }
    ASSERT_EQ(cell.at("status"), "measured");
    EXPECT_GT(cell.at("response_us").at("samples"), 0);
    EXPECT_GT(cell.at("background_us"), 0);
  }
  ASSERT_EQ(document.at("losses").size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const Json& row = document.at("losses").at(i);
    EXPECT_EQ(row.at("policy"), i < 3 ? "gpes" : "ptb");
    EXPECT_EQ(row.at("status"), "measured") << row;
  }
  for (const char* part : {"pending", "copies", "video", "orders", "floods"}) {
    EXPECT_TRUE(document.at(part).empty()) << part;
  }
}

TEST(SharingBench, WhatIsWrongIsRefused) {
  EXPECT_EQ(Output("--backend vax").second, 2);
  EXPECT_EQ(Output("--backend auto").second, 2);
  EXPECT_EQ(Output("--rounds 0").second, 2);
  EXPECT_EQ(Output("--seed -1").second, 2);
  EXPECT_EQ(Output("--colour").second, 2);
  EXPECT_EQ(Output("--preempt-us 100").second, 2);
  EXPECT_EQ(Output("--backend cuda --reserve-sms 0").second, 2);
  EXPECT_EQ(Output("--gpud /bin/false").second, 1);
  const auto [text, code] = Output("--policies teleport 2>&1");
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr("teleport"));
  EXPECT_EQ(Output("--policies ''").second, 2);
  EXPECT_EQ(Output("--policies gpes,gpes").second, 2);
  EXPECT_EQ(Output("--parts load,load").second, 2);
  EXPECT_EQ(Output("--parts lode").second, 2);
}

TEST(SharingBench, ABadTraceIsRefusedBeforeAnythingRuns) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/times";
  std::ofstream(path) << "1\n2\n1.5\n";
  const auto [text, code] = Output("--trace " + path + " 2>&1");
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr("times: line 3: '1.5' comes after 2.000"));
  EXPECT_EQ(Output("--trace /nonexistent/times 2>&1").second, 3);
}

}  // namespace
}  // namespace carillon::bench
