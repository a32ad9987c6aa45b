#include "tools/testbed/fault_plans/kept_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace carillon::fault {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class KeptPlansTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "kept-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    setenv("CARILLON_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The larger `age`, the older.
  std::string Make(const std::string& name, int age) {
    const std::string path = KeptPlansDirectory() + "/" + name;
    fs::create_directories(path + "/recorder");
    std::ofstream(path + "/recorder/r") << "x";
    fs::last_write_time(
        path, fs::file_time_type::clock::now() - std::chrono::hours(age));
    return path;
  }

  std::string folder_;
};

TEST_F(KeptPlansTest, TheOldestGoFirst) {
  EXPECT_THAT(KeptPlans(), IsEmpty());
  EXPECT_TRUE(TrimKeptPlans(3).ok());
  const std::string b = Make("b", 2);
  const std::string a = Make("a", 3);
  const std::string c = Make("c", 1);
  EXPECT_THAT(KeptPlans(), ElementsAre(a, b, c));
  EXPECT_TRUE(TrimKeptPlans(3).ok());
  EXPECT_THAT(KeptPlans(), ElementsAre(a, b, c));
  EXPECT_TRUE(TrimKeptPlans(1).ok());
  EXPECT_THAT(KeptPlans(), ElementsAre(c));
  EXPECT_TRUE(TrimKeptPlans(0).ok());
  EXPECT_FALSE(fs::exists(KeptPlansDirectory()));
}

TEST_F(KeptPlansTest, WhatIsNoPlansFolderStays) {
  Make("a", 1);
  const std::string elsewhere = folder_ + "/elsewhere";
  fs::create_directories(elsewhere);
  std::ofstream(elsewhere + "/file") << "x";
  fs::create_directory_symlink(elsewhere, KeptPlansDirectory() + "/link");
  std::ofstream(KeptPlansDirectory() + "/notes") << "x";
  EXPECT_TRUE(TrimKeptPlans(0).ok());
  EXPECT_THAT(KeptPlans(), IsEmpty());
  EXPECT_TRUE(fs::exists(elsewhere + "/file"));
  EXPECT_TRUE(fs::exists(KeptPlansDirectory() + "/notes"));
}

}  // namespace
}  // namespace carillon::fault
