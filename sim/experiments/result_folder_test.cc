#include "sim/experiments/result_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_directory.h"

namespace carillon::sim::figures {
namespace {

class ResultFolderTest : public testing::Test {
 protected:
  ResultFolderTest() { job_.name = "fig0/a/1"; }

  std::string FileOf(const Job& job) const {
    return folder_.path() + "/" + results_.NameOf(job);
  }
  size_t Files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()),
                         {});
  }

  const TempDirectory folder_;
  const timing::Config config_;
  const ResultFolder results_{folder_.path(), config_};
  Job job_;
};

TEST_F(ResultFolderTest, FindsWhatItKept) {
  EXPECT_FALSE(results_.Find(job_));
  ASSERT_TRUE(results_.Keep(job_, {{"cycles", 0.1}}, 3).ok());
  const auto found = results_.Find(job_);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)["result"]["cycles"], 0.1);
  EXPECT_EQ((*found)["seconds"], 3.0);
  Job other = job_;
  other.seed = 2;
  EXPECT_FALSE(results_.Find(other));
}

TEST_F(ResultFolderTest, TheSecondOfTwoEqualRunsChangesNothing) {
  ASSERT_TRUE(results_.Keep(job_, {{"cycles", 0.1}}, 3).ok());
  EXPECT_TRUE(results_.Keep(job_, {{"cycles", 0.1}}, 4).ok());
  EXPECT_EQ((*results_.Find(job_))["seconds"], 3.0);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ResultFolderTest, TwoRunsThatDifferAreAnError) {
  ASSERT_TRUE(results_.Keep(job_, {{"cycles", 1}}, 3).ok());
  const absl::Status status = results_.Keep(job_, {{"cycles", 2}}, 3);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(status.message(),
            "two runs of fig0/a/1 have different results; "
            "one is in " +
                FileOf(job_));
  EXPECT_EQ((*results_.Find(job_))["result"]["cycles"], 1);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ResultFolderTest, AnIncompleteFileIsReplaced) {
  std::ofstream(FileOf(job_)) << "{\"key\":";
  EXPECT_FALSE(results_.Find(job_));
  ASSERT_TRUE(results_.Keep(job_, {{"cycles", 1}}, 3).ok());
  EXPECT_TRUE(results_.Find(job_));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ResultFolderTest, AFileThatWasEditedIsReplaced) {
  const Json good = {{"cycles", {1, 2, 0.1}}};
  ASSERT_TRUE(results_.Keep(job_, good, 3).ok());
  const Json kept = Json::parse(std::ifstream(FileOf(job_)));
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"result", nullptr},
           {"result", {{"cycles", Json::array()}}},
           {"result", {{"cycles", "many"}}},
           {"seconds", "three"},
           {"hash", 7},
           {"key", 7}}) {
    Json edited = kept;
    edited[key] = value;
    std::ofstream(FileOf(job_)) << edited;
    EXPECT_FALSE(results_.Find(job_)) << edited;
    EXPECT_TRUE(results_.Keep(job_, good, 3).ok());
    EXPECT_EQ((*results_.Find(job_))["result"], good);
  }
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ResultFolderTest, AFolderThatCannotBeWrittenIsAnError) {
  const ResultFolder none("/proc/none", config_);
  EXPECT_TRUE(absl::IsPermissionDenied(none.Prepare()));
  EXPECT_TRUE(absl::IsPermissionDenied(none.Keep(job_, Json::object(), 3)));
  const ResultFolder nothing("", config_);
  EXPECT_TRUE(nothing.Prepare().ok());
  EXPECT_TRUE(nothing.Keep(job_, Json::object(), 3).ok());
  EXPECT_FALSE(nothing.Find(job_));
}

}  // namespace
}  // namespace carillon::sim::figures
