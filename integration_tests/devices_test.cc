// The FPGA and the CPU host as users start them, from flags to exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Testbed;

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  // Returns the exit code and what the device wrote.
  int Run(const std::string& program, const std::vector<std::string>& flags) {
    auto device = testbed_->StartDevice("device0", program, flags);
    EXPECT_TRUE(device.ok()) << std::string(device.status().message());
    const auto exit = (*device)->Wait();
    EXPECT_TRUE(exit.has_value()) << "it does not end";
    output_ = (*device)->output();
    return exit.value_or(-1000);
  }
  int Fpga(const std::vector<std::string>& flags) {
    return Run("devices/fpga/fpga", flags);
  }
  int CpuHost(const std::vector<std::string>& flags) {
    return Run("devices/cpu_host/cpu_host", flags);
  }

  std::unique_ptr<Testbed> testbed_;
  std::string output_;
};

TEST_F(DevicesTest, FramesOfTheWaveComeBackRightFromBothKernels) {
  // More than two beats, and a size that is no multiple of a block's.
  EXPECT_EQ(Fpga({"--frames", "250", "--check", "--size", "61x43"}), 0)
      << output_;
  EXPECT_THAT(output_, AllOf(HasSubstr("250 frames"), HasSubstr("0 wrong")));
  EXPECT_EQ(Fpga({"--frames", "250", "--check", "--size", "61x43", "--kernel",
                  "conv5x5"}),
            0)
      << output_;
}

TEST_F(DevicesTest, AStoredFrameIsTheFrameThatWasRead) {
  const std::string directory = ::testing::TempDir() + "/frames";
  std::filesystem::create_directories(directory);
  std::string image = "P5\n9 7\n255\n";
  for (int i = 0; i < 63; ++i) image += static_cast<char>(i * 4);
  std::ofstream(directory + "/a.pgm", std::ios::binary) << image;
  EXPECT_EQ(Fpga({"--source", directory, "--frames", "2", "--check", "--store",
                  directory + "/out"}),
            0)
      << output_;
  std::stringstream stored;
  stored << std::ifstream(directory + "/out/frame_000001.pgm", std::ios::binary)
                .rdbuf();
  EXPECT_EQ(stored.str(), image);
}

TEST_F(DevicesTest, EveryBackgroundKernelRunsAndIsRight) {
  EXPECT_EQ(CpuHost({"--kernel", "matmul", "--size", "40", "--launches", "5"}),
            0)
      << output_;
  EXPECT_EQ(CpuHost({"--kernel", "bfs", "--size", "5000", "--launches", "30"}),
            0)
      << output_;
  EXPECT_EQ(CpuHost({"--kernel", "bfs", "--size", "1", "--launches", "1"}), 0)
      << output_;
  EXPECT_EQ(CpuHost({"--kernel", "busy", "--size", "10", "--launches", "3"}), 0)
      << output_;
  EXPECT_THAT(output_,
              HasSubstr("3 launches, 96 thread blocks, 0 wrong results"));
  for (const auto& [kernel, size] : {std::pair{"black_scholes", "300"},
                                     {"bfs_frontier", "1500"},
                                     {"bfs_frontier", "1"},
                                     {"bp", "100"},
                                     {"conv1", "1"},
                                     {"conv2", "1"},
                                     {"cutcp", "2"},
                                     {"heartwall", "3"},
                                     {"hotspot", "50"},
                                     {"kmn", "700"},
                                     {"lbm", "9"},
                                     {"lud", "1"},
                                     {"lud", "50"},
                                     {"mri_q", "300"},
                                     {"pathfinder", "700"},
                                     {"sc", "1"},
                                     {"sc", "700"},
                                     {"sgemm", "40"},
                                     {"srad_v1", "23"},
                                     {"srad_v2", "23"},
                                     {"stencil", "10"}}) {
    EXPECT_EQ(CpuHost({"--kernel", kernel, "--size", size, "--launches", "3"}),
              0)
        << output_;
    EXPECT_THAT(output_, HasSubstr("0 wrong results"));
  }
}

TEST_F(DevicesTest, WrongFlagsAreUsageErrorsThatSayWhatIsRight) {
  EXPECT_EQ(Fpga({"--kernel", "dct"}), 2);
  EXPECT_THAT(output_, HasSubstr("dct8x8"));
  EXPECT_EQ(Fpga({"--size", "12"}), 2);
  EXPECT_THAT(output_, HasSubstr("WIDTHxHEIGHT"));
  EXPECT_EQ(Fpga({"--ring", "3", "--frames", "1"}), 2);
  EXPECT_THAT(output_, HasSubstr("power of two"));
  EXPECT_EQ(Fpga({"--store", "/tmp/never"}), 2);
  EXPECT_THAT(output_, HasSubstr("--frames"));
  EXPECT_EQ(Fpga({"--source", "/no/such/file.pgm"}), 1);
  EXPECT_THAT(output_, HasSubstr("/no/such/file.pgm"));
  EXPECT_EQ(CpuHost({"--size", "5000"}), 2);
  EXPECT_THAT(output_, HasSubstr("0 to 4096"));
  EXPECT_EQ(CpuHost({"--log-level", "loud"}), 2);
  EXPECT_EQ(CpuHost({"--no-such-flag"}), 2);
  EXPECT_EQ(CpuHost({"--help"}), 0);
  EXPECT_THAT(output_, HasSubstr("--schedule-event-every-ms"));
}

TEST_F(DevicesTest, WithoutATestbedADeviceSaysSoAndEndsWithFour) {
  testbed_->gpud().Kill();
  EXPECT_EQ(Fpga({}), 4);
  EXPECT_THAT(output_, HasSubstr("is the testbed up?"));
  EXPECT_EQ(Fpga({"--dir", "/tmp/no-such-testbed"}), 4);
}

}  // namespace
}  // namespace carillon
