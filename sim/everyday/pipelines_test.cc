// Asynchronous copies, barriers and pipelines give what the host computes.
#include <cstdint>
#include <vector>

#include "sim/everyday/ptx_test.h"

namespace carillon::sim {
namespace {

using PipelinesTest = PtxTest;

INSTANTIATE_TEST_SUITE_P(All, PipelinesTest,
                         testing::ValuesIn(FilesOf("pipelines",
                                                   {"75", "90", "100"})),
                         NameOfFile);

constexpr size_t kTiles = 9;

TEST_P(PipelinesTest, DoubleBuffersThatAreFilledWithZeros) {
  const std::vector<int> in = Numbers(4 * 64 * kTiles);
  const DeviceAddress out = Copy(std::vector<int>(64));
  Run("double_buffers", 1, 64, {Copy(in), out, kTiles});
  const std::vector<int> got = Values<int>(out, 64);
  for (size_t t = 0; t < 64; ++t) {
    const size_t other = 63 - t;
    int sum = 0;
    for (size_t tile = 0; tile < kTiles; ++tile) {
      for (size_t word = 0; word < (other % 2 != 0 ? 1 : 4); ++word) {
        sum += static_cast<int>(word + 1) * in[4 * (tile * 64 + other) + word];
      }
    }
    EXPECT_EQ(got[t], sum) << t;
  }
}

TEST_P(PipelinesTest, SmallCopies) {
  const std::vector<int> in = Numbers(128);
  const DeviceAddress out = Copy(std::vector<int>(64));
  Run("small_copies", 1, 64, {Copy(in), out});
  const std::vector<int> got = Values<int>(out, 64);
  for (size_t t = 0; t < 64; ++t) {
    EXPECT_EQ(got[t], in[63 - t] + in[2 * (63 - t) + 1]) << t;
  }
}

TEST_P(PipelinesTest, ABarrierWaitsForItsTokensAndCopies) {
  const std::vector<int> in = Numbers(128 * kTiles);
  const DeviceAddress out = Copy(std::vector<int>(128));
  Run("tokens", 1, 128, {Copy(in), out, kTiles});
  const std::vector<int> got = Values<int>(out, 128);
  for (size_t t = 0; t < 128; ++t) {
    int sum = 0;
    for (size_t tile = 0; tile < kTiles; ++tile) {
      sum += static_cast<int>(tile) + in[128 * tile + 127 - t];
    }
    EXPECT_EQ(got[t], sum) << t;
  }
}

// 3 * (3 * (3 * 0 + first) + second) + ...
int Weighted(const std::vector<int>& in, size_t width, size_t which) {
  unsigned sum = 0;
  for (size_t tile = 0; tile < kTiles; ++tile) {
    sum = 3 * sum + static_cast<unsigned>(in[tile * width + which]);
  }
  return static_cast<int>(sum);
}

TEST_P(PipelinesTest, SomeThreadsProduceWhatOthersConsume) {
  const std::vector<int> in = Numbers(64 * kTiles);
  const DeviceAddress out = Copy(std::vector<int>(128));
  Run("two_roles", 1, 128, {Copy(in), out, kTiles});
  const std::vector<int> got = Values<int>(out, 128);
  for (size_t t = 0; t < 128; ++t) {
    EXPECT_EQ(got[t], t < 64 ? 0 : Weighted(in, 64, 127 - t)) << t;
  }
}

TEST_P(PipelinesTest, FourStages) {
  const std::vector<int> in = Numbers(128 * kTiles);
  const DeviceAddress out = Copy(std::vector<int>(128));
  Run("four_stages", 1, 128, {Copy(in), out, kTiles});
  const std::vector<int> got = Values<int>(out, 128);
  for (size_t t = 0; t < 128; ++t) {
    EXPECT_EQ(got[t], Weighted(in, 128, 127 - t)) << t;
  }
}

TEST_P(PipelinesTest, APipelineOfEachThread) {
  const std::vector<int> in = Numbers(64 * kTiles);
  const DeviceAddress out = Copy(std::vector<int>(64));
  Run("own_pipelines", 1, 64, {Copy(in), out, kTiles});
  const std::vector<int> got = Values<int>(out, 64);
  for (size_t t = 0; t < 64; ++t) EXPECT_EQ(got[t], Weighted(in, 64, t)) << t;
}

TEST_P(PipelinesTest, CopiesOfCooperativeGroups) {
  const std::vector<int> in = Numbers(256);
  const DeviceAddress out = Copy(std::vector<int>(128));
  Run("group_copies", 1, 128, {Copy(in), out});
  const std::vector<int> got = Values<int>(out, 128);
  for (size_t t = 0; t < 128; ++t) {
    EXPECT_EQ(got[t], in[t ^ 77] + 5 * in[128 + (t ^ 33)]) << t;
  }
}

TEST_P(PipelinesTest, ThreadsDropOutOfABarrier) {
  const DeviceAddress out = Copy(std::vector<int>(128));
  Run("dropouts", 1, 128, {out});
  const std::vector<int> got = Values<int>(out, 128);
  for (size_t t = 0; t < 128; ++t) {
    const size_t next = (t + 1) % 128;
    const int expected = t % 32 == 5      ? 0
                         : next % 32 == 5 ? -1
                                          : static_cast<int>(next ^ 1);
    EXPECT_EQ(got[t], expected) << t;
  }
}

TEST_P(PipelinesTest, PrimitivesOfC) {
  const std::vector<int> in = Numbers(128);
  const DeviceAddress out = Copy(std::vector<int>(32));
  Run("primitives", 1, 128, {Copy(in), out});
  const std::vector<int> got = Values<int>(out, 32);
  for (size_t t = 0; t < 32; ++t) {
    const int sum = in[t] + in[t + 32] + in[t + 64] + in[t + 96];
    // Which of 128 arrivals the thread's was is open.
    EXPECT_EQ(got[t] % 1000000, sum) << t;
    EXPECT_GE(got[t] / 1000000, 1) << t;
    EXPECT_LE(got[t] / 1000000, 128) << t;
  }
}

TEST_P(PipelinesTest, OneThreadCopiesForAll) {
  const std::vector<int> in = Numbers(256);
  std::vector<const char*> kernels = {"one_copies"};
  if (Has("transactions")) kernels.push_back("transactions");
  for (const char* const kernel : kernels) {
    const DeviceAddress out = Copy(std::vector<int>(256));
    Run(kernel, 1, 256, {Copy(in), out});
    const std::vector<int> got = Values<int>(out, 256);
    for (size_t t = 0; t < 256; ++t) {
      EXPECT_EQ(got[t], in[255 - t]) << kernel << " " << t;
    }
  }
}

}  // namespace
}  // namespace carillon::sim
