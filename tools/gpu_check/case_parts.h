// What the cases of kernel_cases.h are made of.
#ifndef CARILLON_TOOLS_GPU_CHECK_CASE_PARTS_H_
#define CARILLON_TOOLS_GPU_CHECK_CASE_PARTS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/registry.h"
#include "tools/gpu_check/kernel_cases.h"

namespace carillon::gpu_check {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(engine_);
  }
  uint32_t Small(uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(Between(low, high));
  }
  std::vector<std::byte> Bytes(uint64_t size) {
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = std::byte(engine_() & 0xff);
    return bytes;
  }
  std::vector<std::byte> Floats(uint64_t count, float least = -1,
                                float most = 1) {
    std::uniform_real_distribution<float> values(least, most);
    std::vector<std::byte> bytes(count * sizeof(float));
    for (uint64_t i = 0; i < count; ++i) {
      const float value = values(engine_);
      std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(value));
    }
    return bytes;
  }
  // The threads of a block, for one warp or several; it need not be full.
  uint32_t AnyBlock() {
    constexpr uint32_t kBlocks[] = {1, 7, 32, 33, 64, 100, 256, 1024};
    return kBlocks[Between(0, std::size(kBlocks) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

template <class T>
std::vector<std::byte> ToBytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::vector<std::byte> Zeros(uint64_t size) {
  return std::vector<std::byte>(size);
}

// A number of a CaseLaunch.
inline uint64_t Float(float value) { return std::bit_cast<uint32_t>(value); }

inline uint32_t Blocks(uint64_t threads, uint32_t block) {
  return static_cast<uint32_t>(
      std::max<uint64_t>(1, (threads + block - 1) / block));
}

inline CaseLaunch Launch(const char* kernel, simt::Dim3 grid, simt::Dim3 block,
                         std::map<std::string, size_t> buffers,
                         std::map<std::string, uint64_t> numbers = {}) {
  return {
      .kmd = {.kernel = simt::FindKernel(kernel), .grid = grid, .block = block},
      .buffers = std::move(buffers),
      .numbers = std::move(numbers)};
}

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_CASE_PARTS_H_
