// Two kernels whose results and dynamic warp-instruction counts are known from
// GPGPU-Sim 4.2 with the same PTX.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "sim/exec/functional.h"
#include "sim/lower/lower.h"

namespace carillon::sim {
namespace {

class Anchor : public testing::Test {
 protected:
  void Load(const char* file) {
    auto module = ptx::ParseModuleFile(std::string("sim/testdata/") + file);
    ASSERT_TRUE(module.ok()) << module.status();
    auto program = Lower(
        std::make_shared<const ptx::Module>(*std::move(module)), &memory_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
  }

  DeviceAddress Floats(uint64_t count, float (*value)(uint64_t)) {
    const DeviceAddress address = *memory_.Allocate(count * 4, "floats");
    const std::span<float> values = FloatsAt(address, count);
    for (uint64_t i = 0; i < count; ++i) values[i] = value(i);
    return address;
  }
  std::span<float> FloatsAt(DeviceAddress address, uint64_t count) {
    const auto bytes = memory_.At(address, count * 4);
    return {reinterpret_cast<float*>(bytes->data()), count};
  }

  uint64_t Run(const char* kernel, Dim3 grid, Dim3 block,
               const std::vector<uint64_t>& pointers,
               const std::vector<uint32_t>& numbers) {
    Launch launch{.program = program_.get(),
                  .kernel = program_->FindEntry(kernel),
                  .grid = grid,
                  .block = block};
    const size_t bytes = pointers.size() * 8;
    launch.parameters.resize(bytes + numbers.size() * 4);
    std::memcpy(launch.parameters.data(), pointers.data(), bytes);
    std::memcpy(launch.parameters.data() + bytes, numbers.data(),
                numbers.size() * 4);
    FunctionalGpu gpu(&memory_, {});
    const auto begin = std::chrono::steady_clock::now();
    const auto result = gpu.Run(launch);
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return 0;
    std::printf(
        "%s: %.1f M warp instructions/s\n", kernel,
        static_cast<double>(result->warp_instructions) / took.count() / 1e6);
    return result->warp_instructions;
  }

  Memory memory_;
  std::shared_ptr<const Program> program_;
};

TEST_F(Anchor, VectorAddOfAMillion) {
  Load("vectoradd.compute_75.ptx");
  constexpr uint32_t kCount = 1 << 20;
  const DeviceAddress a =
      Floats(kCount, [](uint64_t i) { return static_cast<float>(i); });
  const DeviceAddress b =
      Floats(kCount, [](uint64_t i) { return static_cast<float>(2 * i); });
  const DeviceAddress c = Floats(kCount, [](uint64_t) { return -1.0f; });
  EXPECT_EQ(
      Run("vectoradd", {kCount / 256, 1, 1}, {256, 1, 1}, {a, b, c}, {kCount}),
      720'896u);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(FloatsAt(c, kCount)[i], static_cast<float>(3 * uint64_t{i})) << i;
  }
}

TEST_F(Anchor, MatrixProductOf256InTilesOf16) {
  Load("matmul.compute_75.ptx");
  constexpr uint32_t kN = 256;
  const auto value = [](uint64_t i) {
    return static_cast<float>(i * 7919 % 201) - 100;
  };
  const DeviceAddress a = Floats(kN * kN, value);
  const DeviceAddress b = Floats(kN * kN, value);
  const DeviceAddress c = Floats(kN * kN, [](uint64_t) { return -1.0f; });
  EXPECT_EQ(Run("matmul", {16, 16, 1}, {16, 16, 1}, {c, a, b}, {kN, kN}),
            2'031'616u);
  for (uint32_t row = 0; row < kN; ++row) {
    for (uint32_t column = 0; column < kN; ++column) {
      float sum = 0;
      for (uint32_t k = 0; k < kN; ++k) {
        // Whole numbers: exact in any order.
        sum += value(row * kN + k) * value(k * kN + column);
      }
      ASSERT_EQ(FloatsAt(c, kN * kN)[row * kN + column], sum)
          << row << "," << column;
    }
  }
}

}  // namespace
}  // namespace carillon::sim
