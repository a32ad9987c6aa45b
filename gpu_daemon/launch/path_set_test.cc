#include "gpu_daemon/launch/path_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace carillon::gpud {
namespace {

using ::testing::HasSubstr;

class SilentPath : public LaunchPath {
 public:
  SilentPath(bool tracing, std::vector<std::string>* said) : said_(said) {
    said_->push_back(tracing ? "starts, tracing" : "starts");
  }
  absl::Status Add(std::shared_ptr<EventKernel>) override {
    return absl::OkStatus();
  }
  void Remove(const std::shared_ptr<EventKernel>&) override {}
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory*) override {
    said_->push_back("removes a device");
    return {};
  }
  absl::Status Wake() override { return absl::OkStatus(); }
  void SetTracing(bool on) override {
    said_->push_back(on ? "traces" : "traces no more");
  }
  std::vector<PathCounter> counters() const override { return {{"polls", 7}}; }
  void Stop() override { said_->push_back("stops"); }

 private:
  std::vector<std::string>* const said_;
};

class PathSetTest : public ::testing::Test {
 protected:
  PathSet::Entry Path(std::string_view name) {
    return {
        {name, "a test's"},
        [this](bool tracing) -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
          return std::make_unique<SilentPath>(tracing, &said_);
        }};
  }
  PathSet::Entry Broken(std::string_view name) {
    return {{name, "a test's"},
            [](bool) -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
              return absl::UnimplementedError("not on this GPU");
            }};
  }
  std::vector<std::string> said_;
};

TEST_F(PathSetTest, APathStartsOnceAndWhenItIsAskedFor) {
  PathSet paths({Path("edge"), Path("graph")}, /*tracing=*/true);
  EXPECT_TRUE(said_.empty());
  const auto graph = paths.Find("graph");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->name, "graph");
  EXPECT_EQ(paths.Find("graph")->path, graph->path);
  EXPECT_EQ(said_, std::vector<std::string>{"starts, tracing"});
  EXPECT_TRUE(paths.Describe()[0].counters.empty());
  EXPECT_EQ(paths.Describe()[1].counters[0].value, 7u);
}

TEST_F(PathSetTest, TheDefaultIsTheFirstThatThisMachineCanStart) {
  PathSet paths({Broken("edge"), Path("graph"), Path("baseline")}, false);
  EXPECT_EQ(paths.Find("")->name, "graph");
  EXPECT_EQ(paths.Describe()[0].unavailable, "not on this GPU");
  EXPECT_EQ(paths.Describe()[1].unavailable, "");
  // Who asks for it by name is told why not, and gets no other.
  EXPECT_EQ(paths.Find("edge").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(PathSetTest, WithoutAnyPathTheFirstReasonIsGiven) {
  PathSet paths({Broken("edge")}, false);
  EXPECT_THAT(std::string(paths.Find("").status().message()),
              HasSubstr("not on this GPU"));
}

TEST_F(PathSetTest, WhatIsSaidToAllReachesThoseThatHaveStarted) {
  PathSet paths({Path("edge"), Path("graph")}, false);
  ASSERT_TRUE(paths.Find("edge").ok());
  paths.SetTracing(true);
  EXPECT_TRUE(paths.tracing());
  paths.RemoveDevice(nullptr);
  // This one starts later, and knows.
  ASSERT_TRUE(paths.Find("graph").ok());
  paths.Stop();
  EXPECT_EQ(said_,
            (std::vector<std::string>{"starts", "traces", "removes a device",
                                      "starts, tracing", "stops", "stops"}));
  EXPECT_EQ(paths.Find("edge").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace carillon::gpud
