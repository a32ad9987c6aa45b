// CUDA as people write it, compiled by nvcc for three architectures, gives on the
// simulated GPU what the host computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/everyday/ptx_test.h"

namespace carillon::sim {
namespace {

using EverydayTest = PtxTest;

INSTANTIATE_TEST_SUITE_P(All, EverydayTest,
                         testing::ValuesIn(FilesOf("everyday", {"90", "100"})),
                         NameOfFile);

TEST_P(EverydayTest, ThreadsReturnBeforeTheOthersMeet) {
  constexpr size_t kThreads = 3 * 128;
  constexpr size_t kCount = 300;
  const std::vector<int> in = Numbers(kThreads);
  const DeviceAddress out = Copy(std::vector<int>(kThreads));
  Run("early_return", 3, 128, {Copy(in), out, kCount});
  const std::vector<int> got = Values<int>(out, kThreads);
  for (size_t i = 0; i < kThreads; ++i) {
    if (i >= kCount) {
      EXPECT_EQ(got[i], 0) << i;
      continue;
    }
    const size_t block = i / 128 * 128;
    const size_t warp = i / 32 * 32;
    int odd = 0;
    int votes = 0;
    for (size_t k = block; k < std::min(block + 128, kCount); ++k) {
      odd += in[k] & 1;
      if (k / 32 == i / 32) votes += (in[k] & 2) != 0;
    }
    EXPECT_EQ(got[i],
              odd * 100000 + 10000 + votes * 100 + in[warp] % 100 + in[block])
        << i;
  }
}

TEST_P(EverydayTest, TheSidesOfABranchHaveABarrierEach) {
  const std::vector<int> in = Numbers(128);
  const DeviceAddress out = Copy(std::vector<int>(256));
  Run("two_barriers", 1, 128, {Copy(in), out});
  const std::vector<int> got = Values<int>(out, 256);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(got[i], in[127 - i] + ((127 - i) % 3 == 0 ? 1000 : 0)) << i;
    EXPECT_EQ(got[128 + i], i % 3 == 0 ? 0 : static_cast<int>(i)) << i;
  }
}

TEST_P(EverydayTest, GroupsOfAWarpAreForThemselves) {
  const std::vector<int> in = Numbers(64);
  const DeviceAddress out = Copy(std::vector<int>(64));
  Run("tiles", 1, 64, {Copy(in), out});
  std::vector<int> got = Values<int>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    int tile = 0;
    int peers = 0;
    for (size_t k = 0; k < 64; ++k) {
      if (k / 8 == i / 8) tile += in[k];
      if (k / 32 == i / 32 && in[k] % 5 == in[i] % 5) peers += in[k];
    }
    EXPECT_EQ(got[i], tile * 1000 + peers) << i;
  }
  Run("labels", 1, 64, {out});
  got = Values<int>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    int thirds = 0;
    int rank = 0;
    int label = 0;
    for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) {
      thirds += k % 3 == 0;
      rank += k % 3 == 0 && k < i;
      label += k / 5 == i / 5;
    }
    EXPECT_EQ(got[i], (i % 3 == 0 ? thirds * 100 + rank : 0) + label * 10000)
        << i;
  }
}

TEST_P(EverydayTest, DotProductsOfBytes) {
  std::vector<int> a = Numbers(64);
  std::vector<int> b = Numbers(128);
  b.erase(b.begin(), b.begin() + 64);
  for (size_t i = 0; i < 64; ++i) a[i] *= 77'777, b[i] *= -91'919;
  const DeviceAddress out = Copy(std::vector<int>(4 * 64));
  Run("dot_products", 1, 64, {Copy(a), Copy(b), out});
  const std::vector<int> got = Values<int>(out, 4 * 64);
  for (size_t i = 0; i < 64; ++i) {
    const auto x = std::bit_cast<std::array<int8_t, 4>>(a[i]);
    const auto y = std::bit_cast<std::array<uint8_t, 4>>(b[i]);
    const auto wide = std::bit_cast<std::array<uint16_t, 2>>(a[i]);
    int mixed = 7;
    int same = 9;
    for (size_t k = 0; k < 4; ++k) {
      mixed += x[k] * y[k];
      same += x[k] * static_cast<int8_t>(y[k]);
    }
    EXPECT_EQ(got[4 * i], mixed) << i;
    EXPECT_EQ(got[4 * i + 1], same) << i;
    EXPECT_EQ(got[4 * i + 2], 3 + wide[0] * y[2] + wide[1] * y[3]) << i;
    int found = -1;
    int seen = 0;
    for (int bit = static_cast<int>(i % 32); bit >= 0 && found < 0; --bit) {
      seen += a[i] >> bit & 1;
      if (seen == 2) found = bit;
    }
    EXPECT_EQ(got[4 * i + 3], found) << i;
  }
}

TEST_P(EverydayTest, FieldsOfBits) {
  const std::vector<uint32_t> edges = {0, 1, 5, 31, 32, 33, 64, 0xffffffff};
  std::vector<uint32_t> a, b;
  for (const uint32_t x : edges) {
    for (const uint32_t y : edges) a.push_back(x), b.push_back(y);
  }
  const DeviceAddress out = Copy(std::vector<uint32_t>(4 * 64));
  Run("bit_fields", 1, 64, {Copy(a), Copy(b), out});
  const std::vector<uint32_t> got = Values<uint32_t>(out, 4 * 64);
  const auto mask = [](uint64_t first, uint64_t count) {
    uint32_t result = 0;
    for (uint64_t bit = first; bit < first + count && bit < 32; ++bit) {
      result |= 1u << bit;
    }
    return result;
  };
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t most = std::min(a[i], 32u);
    EXPECT_EQ(got[4 * i], mask(a[i], b[i])) << a[i] << " " << b[i];
    EXPECT_EQ(got[4 * i + 1], mask(a[i] % 32, b[i] % 32))
        << a[i] << " " << b[i];
    uint32_t low = b[i] & mask(0, most);
    if (most > 0 && (b[i] >> (most - 1) & 1) != 0) low |= ~mask(0, most);
    EXPECT_EQ(got[4 * i + 2], low) << a[i] << " " << b[i];
    EXPECT_EQ(got[4 * i + 3], b[i] & mask(0, a[i] % 32)) << a[i] << " " << b[i];
  }
}

template <class T>
T Limited(double x) {
  if (x >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
    return std::numeric_limits<T>::max();
  }
  if (x <= static_cast<double>(std::numeric_limits<T>::lowest())) {
    return std::numeric_limits<T>::lowest();
  }
  return static_cast<T>(x);
}

// A NaN becomes 0 or, where one of the types has 64 bits, the highest bit.
TEST_P(EverydayTest, WholeNumbersOfWhatIsNone) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> in = {
      0.0,  -0.5, 1.5,   2.5,   -2.5,      1e9,      -1e10, 4e9,
      -1.0, 1e19, -1e19, 1e300, -infinity, infinity, 1e18,  std::nan("")};
  const DeviceAddress out = Copy(std::vector<int64_t>(8 * in.size()));
  Run("conversions", 1, static_cast<uint32_t>(in.size()), {Copy(in), out});
  const std::vector<int64_t> got = Values<int64_t>(out, 8 * in.size());
  const int64_t highest = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = in[i];
    const double y = static_cast<float>(x);
    const int64_t* const to = got.data() + 8 * i;
    if (std::isnan(x)) {
      const std::vector<int64_t> expected = {
          std::numeric_limits<int32_t>::min(),
          int64_t{1} << 31,
          highest,
          highest,
          0,
          0,
          highest,
          highest};
      EXPECT_EQ(std::vector<int64_t>(to, to + 8), expected);
      continue;
    }
    EXPECT_EQ(to[0], Limited<int32_t>(std::trunc(x))) << x;
    EXPECT_EQ(to[1], Limited<uint32_t>(std::nearbyint(x))) << x;
    EXPECT_EQ(to[2], Limited<int64_t>(std::floor(x))) << x;
    EXPECT_EQ(static_cast<uint64_t>(to[3]), Limited<uint64_t>(std::trunc(x)))
        << x;
    EXPECT_EQ(to[4], Limited<int32_t>(std::ceil(y))) << x;
    EXPECT_EQ(to[5], Limited<uint32_t>(std::trunc(y))) << x;
    EXPECT_EQ(to[6], Limited<int64_t>(std::nearbyint(y))) << x;
    EXPECT_EQ(static_cast<uint64_t>(to[7]), Limited<uint64_t>(std::trunc(y)))
        << x;
  }
}

}  // namespace
}  // namespace carillon::sim
