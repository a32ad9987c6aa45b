#include "base/results/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_directory.h"

namespace carillon {
namespace {

class WholeFileTest : public testing::Test {
 protected:
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  unsigned Mode() const {
    struct stat found {};
    stat(path_.c_str(), &found);
    return found.st_mode & 0777;
  }
  // Nothing but the file itself is left.
  bool IsAlone() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()),
                         {}) == 1;
  }

  const TempDirectory folder_;
  const std::string path_ = folder_.path() + "/file";
};

TEST_F(WholeFileTest, ReplacesWhatIsThere) {
  ASSERT_TRUE(ReplaceFile(path_, "one", 0600).ok());
  EXPECT_EQ(Text(), "one");
  EXPECT_EQ(Mode(), 0600u);
  ASSERT_TRUE(ReplaceFile(path_, "two").ok());
  EXPECT_EQ(Text(), "two");
  EXPECT_EQ(Mode(), 0644u);
  EXPECT_TRUE(IsAlone());
}

TEST_F(WholeFileTest, MakesAFileOnce) {
  EXPECT_TRUE(*MakeFile(path_, "one"));
  EXPECT_FALSE(*MakeFile(path_, "two"));
  EXPECT_EQ(Text(), "one");
  EXPECT_EQ(Mode(), 0644u);
  EXPECT_TRUE(IsAlone());
}

TEST_F(WholeFileTest, OfManyThatMakeItOneDoes) {
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (char name = 'a'; name < 'i'; ++name) {
    threads.emplace_back(
        [&, name] { made += *MakeFile(path_, std::string(100'000, name)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(Text(), std::string(100'000, Text()[0]));
  EXPECT_TRUE(IsAlone());
}

TEST_F(WholeFileTest, WhatCannotBeWrittenIsToldWithItsPath) {
  for (const absl::Status& status :
       {ReplaceFile("/proc/none/file", ""),
        MakeFile("/proc/none/file", "").status()}) {
    EXPECT_TRUE(absl::IsPermissionDenied(status));
    EXPECT_EQ(status.message(),
              "cannot write /proc/none/file: No such file or directory");
  }
  std::filesystem::create_directory(path_);
  EXPECT_TRUE(absl::IsPermissionDenied(ReplaceFile(path_, "")));
  EXPECT_TRUE(IsAlone());
}

}  // namespace
}  // namespace carillon
