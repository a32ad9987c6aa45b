#include "gpu_daemon/event/path_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "gpu_daemon/event/refusal.h"

namespace carillon::gpud {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  void Wake(const std::shared_ptr<EventKernel>&) override {}
  void SetTracing(bool on) override {
    said_->push_back(on ? "traces" : "traces no more");
  }
  std::vector<PathCounter> counters() const override { return {{"polls", 7}}; }
  std::string notice() const override { return "says nothing"; }
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

TEST_F(PathSetTest, APathThatHasStartedServesAndStopsWithTheOthers) {
  auto started = std::make_unique<SilentPath>(/*tracing=*/false, &said_);
  LaunchPath* const path = started.get();
  PathSet paths({"edge", "a test's"}, std::move(started), /*tracing=*/false);
  EXPECT_EQ(paths.Find("")->path, path);
  EXPECT_EQ(paths.Find("edge")->path, path);
  EXPECT_FALSE(paths.Find("graph").ok());
  EXPECT_EQ(paths.Describe()[0].notice, "says nothing");
  paths.SetTracing(true);
  paths.Stop();
  EXPECT_THAT(said_, ElementsAre("starts", "traces", "stops"));
}

TEST_F(PathSetTest, APathStartsOnceAndWhenItIsAskedFor) {
  PathSet paths({Path("edge"), Path("graph")}, /*tracing=*/true);
  EXPECT_TRUE(said_.empty());
  const auto graph = paths.Find("graph");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->name, "graph");
  EXPECT_EQ(paths.Find("graph")->path, graph->path);
  EXPECT_EQ(said_, std::vector<std::string>{"starts, tracing"});
  EXPECT_TRUE(paths.Describe()[0].counters.empty());
  EXPECT_EQ(paths.Describe()[0].notice, "");
  EXPECT_EQ(paths.Describe()[1].counters[0].value, 7u);
  EXPECT_EQ(paths.Describe()[1].notice, "says nothing");
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

TEST_F(PathSetTest,
       APathThatOnlyOtherBackEndsHaveIsRefusedByNameWithTheReason) {
  PathSet paths({Path("edge"), Path("graph")}, false,
                {{.name = "pagoda", .why = "no MasterKernel"}});
  const absl::Status refused = paths.Find("pagoda").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused.message(),
            "this back-end has no launch path 'pagoda' yet: no MasterKernel; "
            "there are: edge, graph");
  EXPECT_EQ(paths.Find("magic").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(paths.Describe().size(), 2u);
  EXPECT_EQ(paths.Find("")->name, "edge");
}

class ServeTest : public PathSetTest {
 protected:
  // Answers of the paths by name; the others take it.
  absl::StatusOr<StartedPath> Serve(
      PathSet& paths, std::string_view name,
      const std::map<std::string_view, absl::Status>& answers) {
    return paths.Serve(name, [&](const StartedPath& path) {
      tried_.push_back(std::string(path.name));
      // Another thread may ask meanwhile.
      EXPECT_FALSE(paths.Describe().empty());
      const auto answer = answers.find(path.name);
      return answer == answers.end() ? absl::OkStatus() : answer->second;
    });
  }
  std::vector<std::string> tried_;
};

TEST_F(ServeTest, TheFirstThatTakesItServesIt) {
  PathSet paths({Path("edge"), Broken("stream_wait"), Path("graph"),
                 Path("baseline"), Path("persistent")},
                false);
  const auto served =
      Serve(paths, "",
            {{"edge", absl::InvalidArgumentError("is modifyable")},
             {"graph", absl::ResourceExhaustedError("is full")}});
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->name, "baseline");
  EXPECT_EQ(served->path, paths.Find("baseline")->path);
  EXPECT_THAT(tried_, ElementsAre("edge", "graph", "baseline"));
  // Nobody needed the last one.
  EXPECT_EQ(said_.size(), 3u);
}

TEST_F(ServeTest, EveryKindOfRefusalLeadsToTheNextPath) {
  PathSet paths({Path("edge"), Path("graph")}, false);
  for (const absl::Status& refusal :
       {absl::InvalidArgumentError(""), absl::FailedPreconditionError(""),
        absl::UnimplementedError(""), absl::ResourceExhaustedError("")}) {
    const auto served = Serve(paths, "", {{"edge", refusal}});
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(served->name, "graph");
  }
}

TEST_F(ServeTest, APathThatWasNamedServesItOrNoneDoes) {
  PathSet paths({Path("edge"), Path("graph"), Broken("stream_wait")}, false);
  const auto refused = Serve(
      paths, "edge", {{"edge", absl::InvalidArgumentError("is modifyable")}});
  EXPECT_EQ(refused.status(), absl::InvalidArgumentError("is modifyable"));
  EXPECT_THAT(tried_, ElementsAre("edge"));
  EXPECT_EQ(Serve(paths, "graph", {})->name, "graph");
  EXPECT_EQ(Serve(paths, "stream_wait", {}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Serve(paths, "warp_drive", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ServeTest, WhatNoPathCouldMendIsSaidOnce) {
  PathSet paths({Path("edge"), Path("graph")}, false);
  for (const absl::Status& error :
       {OnAnyPath(absl::InvalidArgumentError("dimensions of 0")),
        OnAnyPath(absl::ResourceExhaustedError("no memory")),
        absl::InternalError("a fault"), absl::UnavailableError("goes down")}) {
    EXPECT_EQ(Serve(paths, "", {{"edge", error}}).status(), error);
  }
  EXPECT_THAT(tried_, ElementsAre("edge", "edge", "edge", "edge"));
}

TEST_F(ServeTest, IfAllRefuseTheFirstReasonIsGivenWithItsPayload) {
  PathSet paths({Broken("edge"), Path("stream_wait"), Path("graph")}, false);
  absl::Status first = absl::ResourceExhaustedError("is full");
  first.SetPayload("detail", absl::Cord("what to do"));
  const auto refused =
      Serve(paths, "",
            {{"stream_wait", first},
             {"graph", absl::InvalidArgumentError("is modifyable")}});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(StartsWith("is full; "), HasSubstr("gpud's log")));
  EXPECT_EQ(refused.status().GetPayload("detail"), absl::Cord("what to do"));
}

TEST_F(ServeTest, AfterTheEndNobodyServes) {
  PathSet paths({Path("edge"), Path("graph")}, false);
  paths.Stop();
  EXPECT_EQ(Serve(paths, "", {}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(tried_.empty());
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
