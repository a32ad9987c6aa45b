// Slurm's commands are scripts here that say what a test has them say.
#include "tools/cli/slurm/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/temp_directory.h"
#include "fmt/format.h"

namespace carillon::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SlurmTest : public ::testing::Test {
 protected:
  SlurmTest() { setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1); }
  ~SlurmTest() override { setenv("PATH", path_.c_str(), 1); }

  // A command that says this on stdout and that on stderr, and notes how it was
  // called.
  void Write(const std::string& command, const std::string& out,
             const std::string& err, int code = 0) {
    const std::string file = folder_.path() + "/" + command;
    std::ofstream(file) << fmt::format(
        "#!/bin/sh\necho \"$@\" >> {}.calls\nprintf {}\nprintf {} >&2\n"
        "exit {}\n",
        ShellWord(file), ShellWord(out), ShellWord(err), code);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::string Calls(const std::string& command) const {
    std::stringstream text;
    text << std::ifstream(folder_.path() + "/" + command + ".calls").rdbuf();
    return text.str();
  }
  absl::StatusOr<std::string> Submit() {
    return SubmitJob(folder_.path() + "/job.sh", "#!/bin/sh\n", {"--nodes=2"});
  }

  const std::string path_ = getenv("PATH");
  const TempDirectory folder_ = *TempDirectory::Make();
};

TEST_F(SlurmTest, TheJobIsWhatSbatchSaysOnStdoutWhateverItWarnsOf) {
  for (const std::string warning :
       {"", "sbatch: warning: can't run 1 process on 2 nodes\\n", "77\\n"}) {
    for (const std::string job : {"12", "12;north", "12;hpc-2_a"}) {
      Write("sbatch", job + "\\n", warning);
      const auto submitted = Submit();
      ASSERT_TRUE(submitted.ok()) << submitted.status();
      EXPECT_EQ(*submitted, job) << warning;
    }
  }
  EXPECT_THAT(Calls("sbatch"), HasSubstr("--parsable --nodes=2 "));
}

TEST_F(SlurmTest, WhatSbatchRefusesIsToldInItsWords) {
  Write("sbatch", "12\\n", "sbatch: error: no such partition\\n", 1);
  EXPECT_EQ(Submit().status(), absl::FailedPreconditionError(
                                   "sbatch: sbatch: error: no such partition"));
}

TEST_F(SlurmTest, AnAnswerWithoutAJobIsNone) {
  for (const std::string answer :
       {"", "\\n", "--user=me\\n", "twelve\\n", "12\\n13\\n", "12;\\n",
        "12;north,south\\n", "12;north\\n13\\n"}) {
    Write("sbatch", answer, "12\\n");
    const auto submitted = Submit();
    EXPECT_TRUE(absl::IsFailedPrecondition(submitted.status())) << answer;
    EXPECT_THAT(std::string(submitted.status().message()),
                AllOf(HasSubstr("does not name its job"), HasSubstr("squeue")));
  }
}

TEST_F(SlurmTest, NothingButAJobsNumberGoesToScancel) {
  Write("scancel", "", "");
  for (const std::string job : {"", "--user=me", "12 13", "-u", "1;", "1;a b",
                                "1;2;3", "1;north,south"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CancelJob(job))) << job;
  }
  EXPECT_EQ(Calls("scancel"), "");
  EXPECT_TRUE(CancelJob("12").ok());
  EXPECT_EQ(Calls("scancel"), "12\n");
}

TEST_F(SlurmTest, AJobOfAnotherClusterIsLookedForAndEndedThere) {
  Write("scancel", "", "");
  EXPECT_TRUE(CancelJob("12;north").ok());
  EXPECT_EQ(Calls("scancel"), "--clusters=north 12\n");
  Write("squeue", "CLUSTER: north\\ntask RUNNING (None)\\n", "");
  std::vector<std::string> said;
  EXPECT_THAT(JobWatch("12;north").Tasks(said), ElementsAre("RUNNING (None)"));
  EXPECT_THAT(Calls("squeue"),
              AllOf(HasSubstr("--jobs=12 "), HasSubstr("--clusters=north")));
}

TEST_F(SlurmTest, AJobThatHasEndedNeedsNoCancelling) {
  Write("scancel", "", "scancel: error: Invalid job id 12\\n", 1);
  EXPECT_TRUE(CancelJob("12").ok());
  Write("scancel", "", "scancel: error: Access denied\\n", 1);
  EXPECT_EQ(CancelJob("12"), absl::FailedPreconditionError(
                                 "scancel: scancel: error: Access denied"));
}

TEST_F(SlurmTest, TasksAreWhatSqueueShowsAndItsTroubleIsSaidOnce) {
  std::vector<std::string> said;
  Write("squeue", "task RUNNING (None)\\ntask PENDING (Priority)\\n",
        "task of a warning\\n");
  EXPECT_THAT(JobWatch("12").Tasks(said),
              ElementsAre("RUNNING (None)", "PENDING (Priority)"));
  Write("squeue", "", "squeue: error: Invalid job id specified\\n", 1);
  EXPECT_THAT(JobWatch("12").Tasks(said), IsEmpty());
  EXPECT_THAT(said, IsEmpty());
  Write("squeue", "", "squeue: error: no answer\\n", 1);
  EXPECT_THAT(JobWatch("12").Tasks(said), ElementsAre(HasSubstr("not asked")));
  EXPECT_THAT(said, ElementsAre("squeue: squeue: error: no answer"));
}

}  // namespace
}  // namespace carillon::cli
