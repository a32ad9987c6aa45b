// docs/your_own.md's kernel of one's own on machines without a GPU, in real
// processes: a gpud of each back-end, the carillon program, and the device of
// devices/example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Process;
using testing::Program;
using testing::Testbed;

constexpr char kSaxpy[] =
    "saxpy(x: read f32[], y: write f32[], a: f32, n: u32)";

class UserPtxTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#ifndef CARILLON_HAVE_CUDA
    if (GetParam() == "cuda") GTEST_SKIP() << "built without the CUDA toolkit";
#endif
    flags_ = {"--backend", GetParam()};
    if (GetParam() == "cuda") {
      flags_.insert(flags_.end(), {"--driver", "sim"});
    }
    auto testbed = Testbed::Start(flags_);
    ASSERT_TRUE(testbed.ok()) << testbed.status();
    testbed_ = *std::move(testbed);
  }

  struct Result {
    int code = -1;
    std::string output;
  };
  static Result Run(const std::string& name,
                    const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {}) {
    auto process = Process::Start(name, arguments, environment);
    EXPECT_TRUE(process.ok()) << process.status();
    Result result;
    result.code = (*process)->Wait().value_or(-1);
    result.output = (*process)->output();
    return result;
  }
  Result Load(const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        Program("tools/cli/carillon"), "kernel", "load", file, "--dir",
        testbed_->directory()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run("carillon", arguments);
  }
  Result RunDevice(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(),
                     Program("devices/example/saxpy_device"));
    return Run("saxpy0", arguments,
               {"CARILLON_TESTBED_DIR=" + testbed_->directory()});
  }
  static void ExpectServed(const Result& device, const std::string& path) {
    EXPECT_EQ(device.code, 0);
    EXPECT_THAT(device.output, HasSubstr("100 events by launch path " + path +
                                         ", all sums right"));
  }
  void ExpectTheDeviceIsServed() { ExpectServed(RunDevice(), "edge"); }

  std::vector<std::string> flags_;
  std::unique_ptr<Testbed> testbed_;
};

INSTANTIATE_TEST_SUITE_P(All, UserPtxTest,
                         ::testing::Values("cpu", "sim", "cuda"),
                         [](const auto& info) { return info.param; });

TEST_P(UserPtxTest, ServesEventsAlsoAfterGpudsDeath) {
  const std::string ptx = Program("devices/example/saxpy.ptx");
  const Result loaded = Load(ptx, {"--kernel", kSaxpy});
  ASSERT_EQ(loaded.code, 0) << loaded.output;
  EXPECT_THAT(loaded.output, HasSubstr("loaded from saxpy.ptx"));
  ExpectTheDeviceIsServed();
  for (int death = 0; death < 2; ++death) {
    testbed_->gpud().Kill();
    const auto restarted = testbed_->RestartGpud(flags_);
    ASSERT_TRUE(restarted.ok()) << restarted;
    ExpectTheDeviceIsServed();
  }
}

TEST_P(UserPtxTest, EveryPathServesItOrSaysWhoDoes) {
  ASSERT_EQ(
      Load(Program("devices/example/saxpy.ptx"), {"--kernel", kSaxpy}).code, 0);
  std::vector<std::string> paths = {"edge", "baseline", "baseline_flag"};
  if (GetParam() == "cuda") {
    paths.insert(paths.end(), {"stream_wait", "graph"});
  }
  for (const std::string& path : paths) ExpectServed(RunDevice({path}), path);
  const Result refused = RunDevice({"persistent"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.output,
              HasSubstr(GetParam() == "cuda" ? "; use launch path edge or "
                                             : "; use another path"));
}

// With its own error each, while the one that is there serves on.
TEST_P(UserPtxTest, WhatCannotRunIsRefusedByName) {
  const std::string ptx = Program("devices/example/saxpy.ptx");
  ASSERT_EQ(Load(ptx, {"--kernel", kSaxpy}).code, 0);
  const TempDirectory directory;
  const std::string lacking = directory.path() + "/lacking.ptx";
  std::ifstream in(ptx);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find("mad.lo.s32");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "mmm.lo.s32");
  const auto line = 1 + std::count(text.begin(), text.begin() + at, '\n');
  std::ofstream(lacking) << text;
  const Result refused = Load(lacking, {"--kernel", kSaxpy, "--as", "other"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("lacking.ptx"),
                    HasSubstr(".ptx:" + std::to_string(line) + ":"),
                    HasSubstr("instruction 'mmm.lo.s32'")));
  const Result fewer = Load(ptx, {"--kernel", "scale(y: write f32[])"});
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.output,
              HasSubstr("saxpy.ptx: kernel 'scale': 1 parameter was declared, "
                        "the image has 2"));
  ExpectTheDeviceIsServed();
}

}  // namespace
}  // namespace carillon
