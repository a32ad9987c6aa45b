#include "tools/testbed/perfetto/trace_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/temp_directory.h"
#include "base/unique_fd.h"
#include "tools/testbed/perfetto/test_trace_reader.h"

namespace carillon::perfetto {
namespace {

namespace fs = std::filesystem;

class TraceWriterTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.path() + "/a.pftrace"; }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  std::string Text() const {
    std::ifstream file(Path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDirectory folder_;
};

TEST_F(TraceWriterTest, WritesWhatAReaderFinds) {
  auto made = TraceWriter::Create(Path(), {});
  ASSERT_TRUE(made.ok()) << made.status();
  TraceWriter& writer = **made;
  const Track process = writer.AddProcess("nic0", 4'000'000);
  const Track lane = writer.AddTrack(process, "lane \"1\"");
  const Track counter = writer.AddCounter(process, "in flight");
  const Detail details[] = {
      {.name = writer.Intern("number"), .number = ~uint64_t{0}},
      {.name = writer.Intern("text"), .text = "a\nb"}};
  const uint64_t flow = ~uint64_t{0};
  writer.Begin(lane, 5, {.name = writer.Intern("outer"), .from = {&flow, 1}});
  writer.Begin(lane, 5, {.text = "inner", .details = details, .group = 300});
  writer.Count(counter, 6, -7);
  writer.End(lane, 300);
  writer.End(lane, 300);
  writer.Instant(lane, 301, {.text = "there", .to = {&flow, 1}});
  ASSERT_TRUE(writer.Finish().ok());
  const Json trace = ReadTrace(Path());
  ASSERT_EQ(trace["slices"].size(), 2u);
  const Json& outer = trace["slices"][0];
  const Json& inner = trace["slices"][1];
  EXPECT_EQ(outer["name"], "outer");
  EXPECT_EQ(outer["from"], Json::array({flow}));
  EXPECT_EQ(PathOf(trace, outer), "nic0/lane \"1\"");
  EXPECT_EQ(PidOf(trace, outer), 4'000'000u);
  EXPECT_EQ(inner["begin"], 5);
  EXPECT_EQ(inner["end"], 300);
  EXPECT_EQ(inner["depth"], 1);
  EXPECT_EQ(inner["group"], 300);
  EXPECT_EQ(inner["args"], (Json{{"number", ~uint64_t{0}}, {"text", "a\nb"}}));
  EXPECT_EQ(trace["instants"][0]["to"], Json::array({flow}));
  EXPECT_EQ(trace["counts"][0]["value"].get<uint64_t>(), uint64_t(-7));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(TraceWriterTest, WhatIsNotFinishedLeavesTheFileOfBefore) {
  std::ofstream(Path()) << "before";
  {
    auto writer = TraceWriter::Create(Path(), {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    (*writer)->AddProcess("nic0", 1);
  }
  EXPECT_EQ(Text(), "before");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(TraceWriterTest, AFileThatIsNotItsOwnKeepsItsContents) {
  // The second is where this process's trace is made.
  const std::string part = Path() + "." + std::to_string(getpid()) + ".part";
  for (const std::string& other : {Path() + ".part", part}) {
    std::ofstream(other) << "the user's";
    auto writer = TraceWriter::Create(Path(), {});
    const absl::Status status =
        writer.ok() ? (*writer)->Finish() : writer.status();
    EXPECT_EQ(status.ok(), other != part) << status;
    if (!status.ok()) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status;
    }
    std::ifstream file(other);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
              "the user's");
  }
  EXPECT_EQ(Files(), 3u);
}

TEST_F(TraceWriterTest, TwoAtOnceOfOneProcessDoNotMix) {
  auto first = TraceWriter::Create(Path(), {});
  ASSERT_TRUE(first.ok()) << first.status();
  // Refused where the file system has no files without a name.
  auto second = TraceWriter::Create(Path(), {});
  (*first)->AddProcess("nic0", 1);
  if (second.ok()) {
    (*second)->AddProcess("nic1", 2);
    (*second)->AddProcess("nic2", 3);
    EXPECT_TRUE((*second)->Finish().ok());
    EXPECT_EQ(ReadTrace(Path())["tracks"].size(), 2u);
  }
  EXPECT_TRUE((*first)->Finish().ok());
  EXPECT_EQ(ReadTrace(Path())["tracks"].size(), 1u);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(TraceWriterTest, OneThatIsKilledLeavesNothing) {
  const UniqueFd nameless(
      open(folder_.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  const pid_t child = fork();
  if (child == 0) {
    auto writer = TraceWriter::Create(Path(), {});
    if (writer.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(Files(), nameless ? 0u : 1u);
}

TEST_F(TraceWriterTest, ADiskThatIsFullIsAnErrorAndLeavesTheFileOfBefore) {
  std::ofstream(Path()) << "before";
  // A limit on files' sizes has the kernel refuse as a full disk does.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  absl::Status status;
  {
    auto writer = TraceWriter::Create(Path(), {});
    EXPECT_TRUE(writer.ok()) << writer.status();
    const Track track = (*writer)->AddTrack(Track::kNone, "a");
    for (int i = 0; i < 1000; ++i) {
      (*writer)->Instant(track, i, {.text = "there"});
    }
    status = (*writer)->Finish();
  }
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(Path()), std::string::npos) << status;
  EXPECT_EQ(Text(), "before");
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace carillon::perfetto
