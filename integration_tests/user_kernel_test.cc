// A user's own kernel, from nvcc's file to a device's event, in real processes:
// a gpud on the fake GPU (gpu_daemon/backends/cuda/fake), the carillon program,
// and a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "devices/sdk/edge.h"
#include "integration_tests/fake_driver.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBound;
using ::testing::Not;
using testing::Process;
using testing::Program;
using testing::Testbed;

constexpr char kSaxpy[] =
    "saxpy(x: read f32[], y: write f32[], a: f32, n: u32)";
constexpr uint32_t kFloats = 64;

class UserKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start({"--backend", "cuda"});
    ASSERT_TRUE(testbed.ok()) << testbed.status();
    testbed_ = *std::move(testbed);
  }

  struct Result {
    int code = -1;
    std::string output;
  };
  Result Carillon(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Program("tools/cli/carillon"));
    arguments.insert(arguments.end(), {"--dir", testbed_->directory()});
    auto process = Process::Start("carillon", arguments);
    EXPECT_TRUE(process.ok()) << process.status();
    Result result;
    result.code = (*process)->Wait().value_or(-1);
    result.output = (*process)->output();
    return result;
  }
  Result Load(const std::string& file, const std::string& signature,
              const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"kernel", "load",
                                          Program("devices/example/" + file),
                                          "--kernel", signature};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Carillon(arguments);
  }

  const testing::FakeDriver driver_;
  std::unique_ptr<Testbed> testbed_;
};

// With a kernel of the user's, by whose doorbell it adds 1 to its floats.
class UserKernelDeathTest : public UserKernelTest {
 protected:
  void SetUp() override {
    UserKernelTest::SetUp();
    const Result loaded = Load("saxpy.fatbin", kSaxpy, {"--as", "axpy"});
    ASSERT_EQ(loaded.code, 0) << loaded.output;
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = "device0";
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    const auto x = device_->AllocateBuffer(edge::Place::kInput, kFloats * 4);
    const auto y = device_->AllocateBuffer(edge::Place::kOutput, kFloats * 4);
    ASSERT_TRUE(x.ok() && y.ok());
    x_ = *x;
    y_ = *y;
    for (uint32_t i = 0; i < kFloats; ++i) {
      reinterpret_cast<float*>(x_.bytes.data())[i] = 1;
    }
    const auto queue = edgeRegisterEvent(
        *device_, {.kernel = "axpy",
                   .block = {kFloats, 1, 1},
                   .max_in_flight = 4,
                   .launch_path = "graph",
                   .parameters = {edge::Fixed("x", x_), edge::Fixed("y", y_),
                                  edge::ConstantFloat("a", 1),
                                  edge::Constant("n", kFloats)}});
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *queue;
  }
  void ExpectAnEventEnds() {
    queue_->RingDoorbell();
    const auto completion = queue_->Wait(kBound);
    ASSERT_TRUE(completion.ok()) << completion.status();
    EXPECT_EQ(completion->state, shm::EventState::kDone);
    queue_->Free();
    float value = 0;
    std::memcpy(&value, y_.bytes.data() + (kFloats - 1) * 4, 4);
    EXPECT_EQ(value, 1);
  }
  // Then another gpud runs on that back-end.
  void EndGpud(int signal, const std::string& next = "cuda") {
    testbed_->gpud().Signal(signal);
    ASSERT_TRUE(absl::IsUnavailable(device_->WaitForEnd(kBound)));
    ASSERT_TRUE(testbed_->gpud().Wait().has_value());
    const auto restarted = testbed_->RestartGpud({"--backend", next});
    ASSERT_TRUE(restarted.ok()) << restarted;
  }

  std::unique_ptr<edge::Device> device_;
  edge::Buffer x_;
  edge::Buffer y_;
  edge::EventQueue* queue_ = nullptr;
};

TEST_F(UserKernelDeathTest, TheNextGpudHasItAgain) {
  ExpectAnEventEnds();
  for (const int signal : {SIGKILL, SIGUSR1}) {
    EndGpud(signal);
    const absl::Status resumed = device_->Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << resumed;
    ExpectAnEventEnds();
  }
}

TEST_F(UserKernelDeathTest, ItsLossIsToldAsSuch) {
  EndGpud(SIGKILL, "cpu");
  const absl::Status resumed = device_->Resume(kBound);
  EXPECT_EQ(resumed.code(), absl::StatusCode::kDataLoss) << resumed;
  EXPECT_THAT(std::string(resumed.message()),
              AllOf(HasSubstr("kernel 'axpy' was loaded into an earlier gpud "
                              "and is lost: saxpy.fatbin: "),
                    HasSubstr("carillon kernel load")));
}

// A testbed that was taken down for good leaves no kernels to the next one.
TEST_F(UserKernelDeathTest, AnotherTestbedDoesNotHaveIt) {
  EndGpud(SIGTERM);
  EXPECT_THAT(Carillon({"kernels"}).output, Not(HasSubstr("axpy")));
}

TEST_F(UserKernelTest, IsLoadedListedAndRunByADevicesDoorbell) {
  const Result loaded =
      Load("saxpy.fatbin", kSaxpy, {"--as", "axpy", "--summary", "y += a x"});
  EXPECT_EQ(loaded.code, 0) << loaded.output;
  EXPECT_THAT(loaded.output,
              AllOf(HasSubstr("x as pointer, y as pointer, a, n"),
                    HasSubstr("loaded from saxpy.fatbin")));
  EXPECT_THAT(Carillon({"kernels"}).output,
              AllOf(HasSubstr("saxpy.fatbin"), HasSubstr("of the testbed")));
  EXPECT_THAT(Carillon({"kernels", "axpy"}).output,
              HasSubstr("loaded from saxpy.fatbin, saxpy"));

  edge::AttachOptions options;
  options.testbed_directory = testbed_->directory();
  options.name = "device0";
  options.kind = "test";
  auto device = edge::Device::Attach(options);
  ASSERT_TRUE(device.ok()) << device.status();
  auto x = (*device)->AllocateBuffer(edge::Place::kInput, kFloats * 4);
  auto y = (*device)->AllocateBuffer(edge::Place::kOutput, kFloats * 4);
  ASSERT_TRUE(x.ok() && y.ok());
  auto* const in = reinterpret_cast<float*>(x->bytes.data());
  for (uint32_t i = 0; i < kFloats; ++i) in[i] = static_cast<float>(i);
  edge::EventSpec spec{
      .kernel = "axpy",
      .block = {kFloats, 1, 1},
      .max_in_flight = 4,
      .parameters = {edge::Fixed("x", *x), edge::Fixed("y", *y),
                     edge::Writable("a"), edge::Constant("n", kFloats)}};
  spec.launch_path = "graph";
  const auto queue = edgeRegisterEvent(**device, spec);
  ASSERT_TRUE(queue.ok()) << queue.status();
  const auto a = (*queue)->ParameterOffset("a");
  ASSERT_TRUE(a.ok());
  for (const float factor : {2.0f, 3.0f}) {
    (*queue)->Set(*a, factor);
    (*queue)->RingDoorbell();
    const auto completion = (*queue)->Wait(kBound);
    ASSERT_TRUE(completion.ok()) << completion.status();
    EXPECT_EQ(completion->state, shm::EventState::kDone);
    (*queue)->Free();
  }
  for (uint32_t i = 0; i < kFloats; ++i) {
    float value = 0;
    std::memcpy(&value, y->bytes.data() + i * 4, 4);
    EXPECT_EQ(value, 5 * static_cast<float>(i));
  }
  const auto times = (*device)->LaunchKernel(
      {.kernel = "axpy",
       .block = {kFloats, 1, 1},
       .parameters = {edge::Fixed("x", *x), edge::Fixed("y", *y),
                      edge::ConstantFloat("a", 1),
                      edge::Constant("n", kFloats)}});
  EXPECT_TRUE(times.ok()) << times.status();
}

// PTX is rewritten, a fatbin is not; and one slice is the whole launch.
TEST_F(UserKernelTest,
       StatusCountsLaunchesInSlicesOrPersistentAndWholeOnesByReason) {
  ASSERT_EQ(Load("saxpy.ptx", kSaxpy, {"--as", "sliced"}).code, 0);
  ASSERT_EQ(Load("saxpy.fatbin", kSaxpy, {"--as", "whole"}).code, 0);
  ASSERT_EQ(Carillon({"policy", "gpes"}).code, 0);
  EXPECT_THAT(Carillon({"status"}).output, Not(HasSubstr("slices")));
  edge::AttachOptions options;
  options.testbed_directory = testbed_->directory();
  options.name = "device0";
  options.kind = "test";
  auto device = edge::Device::Attach(options);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto x = (*device)->AllocateBuffer(edge::Place::kInput, kFloats * 4);
  const auto y = (*device)->AllocateBuffer(edge::Place::kOutput, kFloats * 4);
  ASSERT_TRUE(x.ok() && y.ok());
  // The fake GPU holds 132 times 32 blocks.
  for (const auto& [kernel, blocks] :
       {std::pair("sliced", 10'000u), {"whole", 10'000u}, {"sliced", 1u}}) {
    const auto times = (*device)->LaunchKernel(
        {.kernel = kernel,
         .grid = {blocks, 1, 1},
         .block = {kFloats, 1, 1},
         .parameters = {edge::Fixed("x", *x), edge::Fixed("y", *y),
                        edge::ConstantFloat("a", 1),
                        edge::Constant("n", kFloats)}});
    ASSERT_TRUE(times.ok()) << times.status();
  }
  EXPECT_THAT(Carillon({"status"}).output,
              HasSubstr("1 of 3 launches in 3 slices; whole: 1 one_slice, "
                        "1 no_ptx"));
  const Json status = Json::parse(Carillon({"status", "-o", "json"}).output);
  EXPECT_EQ(status["slices"],
            Json::parse(R"({"launches": 1, "slices": 3, "over_bound": 0,
                            "whole": [{"name": "one_slice", "value": 1},
                                      {"name": "no_ptx", "value": 1}]})"));

  // A user's code takes no blocks.
  EXPECT_THAT(Carillon({"status"}).output, Not(HasSubstr("ptb ")));
  ASSERT_EQ(Carillon({"policy", "ptb"}).code, 0);
  for (const auto& [kernel, blocks] :
       {std::pair("sliced", 10'000u), {"echo", 10'000u}, {"echo", 1u}}) {
    edge::Device::LaunchSpec spec = {
        .kernel = kernel, .grid = {blocks, 1, 1}, .block = {kFloats, 1, 1}};
    if (kernel == std::string("echo")) {
      spec.parameters = {edge::Fixed("in", *x), edge::Fixed("out", *y)};
    } else {
      spec.parameters = {edge::Fixed("x", *x), edge::Fixed("y", *y),
                         edge::ConstantFloat("a", 1),
                         edge::Constant("n", kFloats)};
    }
    const auto times = (*device)->LaunchKernel(spec);
    ASSERT_TRUE(times.ok()) << times.status();
  }
  EXPECT_THAT(Carillon({"status"}).output,
              HasSubstr("1 of 3 launches as persistent blocks, stopped 0 "
                        "times; whole: 1 all_fit, 1 users_kernel"));
  EXPECT_EQ(Json::parse(Carillon({"status", "-o", "json"}).output)["ptb"],
            Json::parse(R"({"launches": 1, "stops": 0,
                      "whole": [{"name": "all_fit", "value": 1},
                                {"name": "users_kernel", "value": 1}]})"));
}

TEST_F(UserKernelTest, WhatIsWrongEndsWithItsOwnCode) {
  const Result count = Load("saxpy.ptx", "saxpy(x: read f32[])");
  EXPECT_EQ(count.code, 2);
  EXPECT_THAT(count.output,
              HasSubstr("saxpy.ptx: kernel 'saxpy': 1 parameter was "
                        "declared, the image has 4"));
  const Result symbol = Load("saxpy.cubin", "sexpy()");
  EXPECT_EQ(symbol.code, 3);
  EXPECT_THAT(symbol.output, HasSubstr("saxpy.cubin has no kernel 'sexpy'"));
  const Result signature = Load("saxpy.cubin", "saxpy(x: f32[])");
  EXPECT_EQ(signature.code, 2);
  EXPECT_THAT(signature.output, HasSubstr("at character 10"));
  EXPECT_EQ(Load("no_such_file", "k()").code, 3);
  EXPECT_EQ(Load("saxpy.cubin", kSaxpy).code, 0);
  const Result again = Load("saxpy.ptx", kSaxpy);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr("there is a kernel 'saxpy' already, "
                                      "from saxpy.cubin"));
}

}  // namespace
}  // namespace carillon
