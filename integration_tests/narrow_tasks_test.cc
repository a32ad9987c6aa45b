// Every kernel of kernels/narrow, by its name through gpud, on each back-end and
// as a task of Pagoda's launch paths: at Pagoda's sizes and with results that are
// known beforehand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/sdk/edge.h"
#include "integration_tests/fake_driver.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using edge::Constant;
using edge::ConstantFloat;
using edge::Fixed;
using edge::Place;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::Testbed;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class NarrowTasksTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string backend = GetParam();
    if (const size_t at = backend.find(" by "); at != backend.npos) {
      launch_path_ = backend.substr(at + 4);
      backend.resize(at);
    }
    std::vector<std::string> arguments{"--backend", backend};
#ifndef CARILLON_HAVE_CUDA
    if (GetParam().starts_with("cuda")) {
      GTEST_SKIP() << "built without the CUDA toolkit";
    }
#endif
    if (GetParam() == "cuda on sim") {
      arguments = {"--backend", "cuda", "--driver", "sim"};
    }
    if (GetParam() == "cuda") {
      driver_.emplace();
    }
    auto testbed = Testbed::Start(arguments);
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = "host";
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    ASSERT_TRUE(device.ok()) << Message(device.status());
    device_ = *std::move(device);
  }

  template <class T>
  edge::Buffer Input(const std::vector<T>& values) {
    const auto buffer =
        device_->AllocateBuffer(Place::kInput, values.size() * sizeof(T));
    EXPECT_TRUE(buffer.ok()) << Message(buffer.status());
    std::memcpy(buffer->bytes.data(), values.data(), buffer->bytes.size());
    return *buffer;
  }
  template <class T>
  edge::Buffer Output(size_t count) {
    const auto buffer =
        device_->AllocateBuffer(Place::kOutput, count * sizeof(T));
    EXPECT_TRUE(buffer.ok()) << Message(buffer.status());
    return *buffer;
  }
  // An output that begins with these values: a kernel writes them.
  edge::Buffer Changeable(const std::vector<float>& values) {
    edge::Buffer buffer = Output<float>(values.size());
    EXPECT_TRUE(
        Launch("echo", {Fixed("in", Input(values)), Fixed("out", buffer)})
            .ok());
    return buffer;
  }
  template <class T>
  std::vector<T> Values(const edge::Buffer& buffer) {
    std::vector<T> values(buffer.bytes.size() / sizeof(T));
    std::memcpy(values.data(), buffer.bytes.data(), buffer.bytes.size());
    return values;
  }

  absl::Status RunEvent(const edge::EventSpec& spec) {
    const auto queue = edge::edgeRegisterEvent(*device_, spec);
    if (!queue.ok()) return queue.status();
    EXPECT_EQ((*queue)->launch_path(), launch_path_);
    (*queue)->RingDoorbell();
    const auto end = (*queue)->Wait(testing::kBound);
    EXPECT_TRUE(edge::edgeUnregisterEvent(*device_, *queue).ok());
    if (!end.ok()) return end.status();
    if (end->state == edge::EventState::kDone) return absl::OkStatus();
    return absl::InternalError(std::to_string(end->status));
  }
  absl::Status Launch(const char* kernel,
                      std::vector<edge::Parameter> parameters) {
    if (!launch_path_.empty()) {
      return RunEvent({.kernel = kernel,
                       .block = {128, 1, 1},
                       .launch_path = launch_path_,
                       .parameters = std::move(parameters)});
    }
    edge::Device::LaunchSpec spec;
    spec.kernel = kernel;
    spec.block = {128, 1, 1};
    spec.parameters = std::move(parameters);
    return device_->LaunchKernel(spec).status();
  }
  void Run(const char* kernel, std::vector<edge::Parameter> parameters) {
    const absl::Status status = Launch(kernel, std::move(parameters));
    EXPECT_TRUE(status.ok()) << kernel << ": " << Message(status);
  }

  std::string launch_path_;  // empty: background kernels
  std::optional<testing::FakeDriver> driver_;
  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<edge::Device> device_;
};

TEST_P(NarrowTasksTest, MandelbrotCounts) {
  const edge::Buffer counts = Output<uint32_t>(64 * 64);
  // c = 1: 0, 1, 2, 5.
  for (const auto& [real, count] : {std::pair{1.0, 3u}, std::pair{0.0, 400u}}) {
    Run("mandelbrot",
        {Fixed("counts", counts), Constant("width", 64), Constant("height", 64),
         Constant("most", 400), ConstantFloat("first_real", real),
         ConstantFloat("first_imaginary", 0), ConstantFloat("step", 0)});
    EXPECT_THAT(Values<uint32_t>(counts), Each(count));
  }
}

TEST_P(NarrowTasksTest, FiltersPassASignal) {
  std::vector<float> signal(2048);
  for (size_t i = 0; i < signal.size(); ++i) signal[i] = 1.0f + i;
  std::vector<float> later(64);  // by one sample
  later[1] = 1.0f;
  const edge::Buffer filter = Input(later);
  const edge::Buffer out = Output<float>(2048);
  Run("filter_bank",
      {Fixed("signal", Input(signal)), Fixed("analysis", filter),
       Fixed("synthesis", filter), Fixed("filtered", Output<float>(2048)),
       Fixed("kept", Output<float>(2048)), Fixed("out", out),
       Constant("length", 2048), Constant("taps", 64), Constant("factor", 8)});
  const std::vector<float> banked = Values<float>(out);
  for (uint32_t i = 0; i < 2048; ++i) {
    ASSERT_EQ(banked[i], i % 8 == 1 && i > 1 ? signal[i - 2] : 0.0f) << i;
  }

  // 1024 complex samples times i, and every second one of them.
  std::vector<float> turn(512);
  turn[1] = 1.0f;
  const edge::Buffer turned = Output<float>(1024);
  Run("beam_fir", {Fixed("signal", Input(signal)), Fixed("filter", Input(turn)),
                   Fixed("out", turned), Constant("length", 1024),
                   Constant("taps", 256), Constant("factor", 2)});
  const std::vector<float> samples = Values<float>(turned);
  for (uint32_t i = 0; i < 512; ++i) {
    ASSERT_EQ(samples[2 * i], -signal[4 * i + 1]) << i;
    ASSERT_EQ(samples[2 * i + 1], signal[4 * i]) << i;
  }

  const edge::Buffer beam = Output<float>(2 * 64);
  Run("beam_form",
      {Fixed("channels", Input(std::vector<float>(2 * 12 * 64, 1.0f))),
       Fixed("weights", Input(std::vector<float>(2 * 12, 1.0f))),
       Fixed("beam", beam), Constant("channel_count", 12),
       Constant("length", 64)});
  const std::vector<float> sums = Values<float>(beam);
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(sums[2 * i], 0.0f) << i;  // (1 + i) (1 + i) = 2i
    ASSERT_EQ(sums[2 * i + 1], 24.0f) << i;
  }
}

// min(i, j) + 1 is the product of two triangles of ones.
TEST_P(NarrowTasksTest, LuTasksDecomposeAndRefuseASingularBlock) {
  constexpr uint32_t kN = 32;
  std::vector<float> diagonal(kN * kN), right(kN * kN), below(kN * kN);
  for (uint32_t row = 0; row < kN; ++row) {
    for (uint32_t column = 0; column < kN; ++column) {
      diagonal[row * kN + column] = 1.0f + std::min(row, column);
      right[row * kN + column] = 1.0f + row;
      below[row * kN + column] = 1.0f + column;
    }
  }
  const edge::Buffer lu = Changeable(diagonal);
  const edge::Buffer upper = Changeable(right);
  const edge::Buffer left = Changeable(below);
  const edge::Buffer inner = Changeable(std::vector<float>(kN * kN, 40.0f));
  const edge::Parameter n = Constant("n", kN);
  Run("slud_lu0", {Fixed("block", lu), n});
  Run("slud_fwd", {Fixed("diagonal", lu), Fixed("block", upper), n});
  Run("slud_bdiv", {Fixed("diagonal", lu), Fixed("block", left), n});
  Run("slud_bmod",
      {Fixed("left", left), Fixed("upper", upper), Fixed("block", inner), n});
  for (const edge::Buffer& block : {lu, upper, left}) {
    EXPECT_THAT(Values<float>(block), Each(1.0f));
  }
  EXPECT_THAT(Values<float>(inner), Each(8.0f));

  const absl::Status singular =
      Launch("slud_lu0", {Fixed("block", lu), n});  // all ones
  EXPECT_EQ(singular.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(singular), HasSubstr("3"));
}

TEST_P(NarrowTasksTest, ImagesAndProducts) {
  std::vector<uint8_t> grey(128 * 128, 130);
  for (const char* kernel : {"dct8x8_plain", "dct8x8_shared"}) {
    const edge::Buffer coefficients = Output<float>(128 * 128);
    Run(kernel,
        {Fixed("image", Input(grey)), Fixed("coefficients", coefficients),
         Constant("width", 128), Constant("height", 128)});
    const std::vector<float> found = Values<float>(coefficients);
    for (uint32_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], i % 64 == 0 ? 16.0f : 0.0f, 1e-4) << kernel << i;
    }
  }

  std::vector<float> image(128 * 128);
  for (uint32_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>(i % 128 + 1000 * (i / 128));
  }
  std::vector<float> shift(17);
  shift[9] = 1.0f;  // by one pixel
  for (const char* kernel : {"conv_rows", "conv_columns"}) {
    const edge::Buffer out = Output<float>(image.size());
    Run(kernel, {Fixed("image", Input(image)), Fixed("taps", Input(shift)),
                 Fixed("out", out), Constant("width", 128),
                 Constant("height", 128), Constant("radius", 8)});
    const std::vector<float> shifted = Values<float>(out);
    const bool rows = std::string_view(kernel) == "conv_rows";
    for (uint32_t i = 0; i < image.size(); ++i) {
      const uint32_t x = i % 128;
      const uint32_t y = i / 128;
      ASSERT_EQ(shifted[i],
                rows ? image[x == 0 ? i : i - 1] : image[y == 0 ? i : i - 128])
          << kernel << i;
    }
  }

  const std::vector<float> ones(64 * 64, 1.0f);
  for (const char* kernel : {"matmul_plain", "matmul_shared"}) {
    const edge::Buffer c = Output<float>(64 * 64);
    Run(kernel, {Fixed("a", Input(ones)), Fixed("b", Input(ones)),
                 Fixed("c", c), Constant("n", 64)});
    EXPECT_THAT(Values<float>(c), Each(64.0f)) << kernel;
    const absl::Status none =
        Launch(kernel, {Fixed("a", Input(ones)), Fixed("b", Input(ones)),
                        Fixed("c", c), Constant("n", 0)});
    EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument) << Message(none);
  }
}

// With a key of zeros, all rounds' keys are 0, and DES of zeros is known.
TEST_P(NarrowTasksTest, TripleDesEncryptsAPacket) {
  constexpr uint32_t kBytes = 2048;
  const edge::Buffer out = Output<uint8_t>(kBytes);
  Run("triple_des", {Fixed("keys", Input(std::vector<uint32_t>(96))),
                     Fixed("packet", Input(std::vector<uint8_t>(kBytes))),
                     Fixed("out", out), Constant("bytes", kBytes)});
  constexpr uint8_t kSealed[] = {0x8c, 0xa6, 0x4d, 0xe9,
                                 0xc1, 0xb1, 0x23, 0xa7};
  const std::vector<uint8_t> sealed = Values<uint8_t>(out);
  for (uint32_t i = 0; i < kBytes; ++i) ASSERT_EQ(sealed[i], kSealed[i % 8]);
}

INSTANTIATE_TEST_SUITE_P(Backends, NarrowTasksTest,
                         ::testing::Values("cpu", "cpu by pagoda",
                                           "cpu by pagoda_ring", "sim",
                                           "sim by pagoda",
                                           "sim by pagoda_ring", "cuda on sim",
                                           "cuda"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace carillon
