// docs/your_own.md's kernel of one's own on machines without a GPU, in real
// processes: a gpud of each back-end, the carillon program, and the device of
// devices/example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "devices/sdk/edge.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
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
  const bool on_cuda = GetParam() == "cuda";
  for (const std::string path : {"persistent", "pagoda", "pagoda_ring"}) {
    const Result refused = RunDevice({path});
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.output, HasSubstr(on_cuda ? "; use launch path edge or "
                                                  : "; use another path"));
  }
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

// where: stores where its buffer is. over: stores its round, and then loads and
// stores for ever at an address that is none of its device's.
constexpr char kOver[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry where(.param .u64 at)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  st.global.u64 [%rd1], %rd1;
  ret;
}
.visible .entry over(.param .u64 other, .param .u64 round, .param .u64 began)
{
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [other];
  ld.param.u64 %rd2, [round];
  ld.param.u64 %rd3, [began];
again:
  ld.global.u64 %rd4, [%rd1];
  st.global.u64 [%rd1], %rd4;
  st.global.u64 [%rd3], %rd2;
  bra again;
}
)";

class UserPtxOverOthersTest : public UserPtxTest {
 protected:
  std::unique_ptr<edge::Device> Attach(const std::string& name) {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *std::move(device) : nullptr;
  }
  static edge::EventQueue* Register(edge::Device& device,
                                    const edge::EventSpec& spec) {
    const auto queue = edgeRegisterEvent(device, spec);
    EXPECT_TRUE(queue.ok()) << queue.status();
    return queue.ok() ? *queue : nullptr;
  }
  static edge::Completion Take(edge::EventQueue* queue) {
    const auto completion = queue->Wait(testing::kBound);
    EXPECT_TRUE(completion.ok()) << completion.status();
    if (!completion.ok()) return {};
    queue->Free();
    return *completion;
  }
};

// There is no GPU whose driver would take the memory.
INSTANTIATE_TEST_SUITE_P(All, UserPtxOverOthersTest,
                         ::testing::Values("cpu", "sim"),
                         [](const auto& info) { return info.param; });

TEST_P(UserPtxOverOthersTest, ADeathOfTheirDeviceFailsTheEventAlone) {
  const TempDirectory directory;
  const std::string file = directory.path() + "/over.ptx";
  std::ofstream(file) << kOver;
  const Result loaded =
      Load(file, {"--kernel", "where(at: write u64[])", "--kernel",
                  "over(other: u64, round: u64, began: write u64[])"});
  ASSERT_EQ(loaded.code, 0) << loaded.output;
  const auto device = Attach("over0");
  const auto bystander = Attach("other0");
  ASSERT_TRUE(device != nullptr && bystander != nullptr);
  const auto began = device->AllocateBuffer(edge::Place::kOutput, 8);
  ASSERT_TRUE(began.ok()) << began.status();
  edge::EventQueue* const over = Register(
      *device, {.kernel = "over",
                .parameters = {edge::Writable("other"), edge::Writable("round"),
                               edge::Fixed("began", *began)}});
  // Of gpud's own, by the front-end: `over` may have the only worker.
  edge::EventQueue* const own = Register(
      *bystander,
      {.kernel = "fail_if", .parameters = {edge::Constant("code", 0)}});
  ASSERT_TRUE(over != nullptr && own != nullptr);
  for (uint64_t round = 1; round <= 5; ++round) {
    const auto other = testbed_->StartDevice(
        "located" + std::to_string(round), "integration_tests/located_device");
    ASSERT_TRUE(other.ok()) << other.status();
    const std::string sign = "located at ";
    ASSERT_TRUE((*other)->WaitForOutput(sign));
    const std::string output = (*other)->output();
    const uint64_t address =
        std::stoull(output.substr(output.find(sign) + sign.size()));
    over->Set(*over->ParameterOffset("other"), address);
    over->Set(*over->ParameterOffset("round"), round);
    over->RingDoorbell();
    ASSERT_TRUE(Eventually([&] {
      return std::atomic_ref<uint64_t>(
                 *reinterpret_cast<uint64_t*>(began->bytes.data())) == round;
    }));
    own->RingDoorbell();
    EXPECT_EQ(Take(own).state, edge::EventState::kDone);
    (*other)->Kill();
    const edge::Completion end = Take(over);
    EXPECT_EQ(end.state, edge::EventState::kFailed);
    // The latter where gpud hears of the death too late.
    EXPECT_THAT(
        static_cast<edge::EventStatus>(end.status),
        AnyOf(edge::EventStatus::kKernelFault, edge::EventStatus::kTimedOut));
    own->RingDoorbell();
    EXPECT_EQ(Take(own).state, edge::EventState::kDone);
  }
  EXPECT_FALSE(testbed_->gpud().ended());
}

}  // namespace
}  // namespace carillon
