// Half precision, bfloat16 and packed whole numbers give what the host computes
// by exact arithmetic.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "sim/everyday/ptx_test.h"

namespace carillon::sim {
namespace {

using HalvesTest = PtxTest;

INSTANTIATE_TEST_SUITE_P(All, HalvesTest,
                         testing::ValuesIn(FilesOf("halves", {"90", "100"})),
                         NameOfFile);

// All values of a format of 16 bits; what is rounded to it is looked up.
class Format {
 public:
  Format(int digits, int least) : digits_(digits), least_(least) {
    for (uint32_t bits = 0; bits < infinity(); ++bits) {
      values_.push_back(Value(static_cast<uint16_t>(bits)));
    }
  }
  uint16_t infinity() const {
    return static_cast<uint16_t>(0x7fff >> (digits_ - 1) << (digits_ - 1));
  }
  double Value(uint16_t bits) const {
    const int field = (bits & 0x7fff) >> (digits_ - 1);
    const int fraction = bits & ((1 << (digits_ - 1)) - 1);
    double x =
        std::ldexp(field == 0 ? fraction : fraction + (1 << (digits_ - 1)),
                   std::max(field, 1) - 1 + least_ - (digits_ - 1));
    if ((bits & 0x7fff) == infinity()) x = HUGE_VAL;
    if ((bits & 0x7fff) > infinity()) x = std::nan("");
    return std::copysign(x, (bits & 0x8000) != 0 ? -1 : 1);
  }
  // `x` must be exact. direction: 0 to nearest, 1 up, -1 down, 2 to zero.
  uint16_t Round(__float128 x, int direction = 0) const {
    if (x != x) return 0x7fff;
    const bool negative = std::signbit(static_cast<double>(x));
    const __float128 magnitude = negative ? -x : x;
    const auto above = std::ranges::upper_bound(
        values_, magnitude, {}, [](double v) { return __float128{v}; });
    auto below = static_cast<uint16_t>(above - values_.begin() - 1);
    const __float128 low = values_[below];
    // The one after the last is where it would be if the format went on.
    const __float128 high = above != values_.end()
                                ? __float128{*above}
                                : 2 * low - values_[below - 1];
    bool up = false;
    if (direction == 0) {
      const __float128 middle = (low + high) / 2;
      up = magnitude > middle || (magnitude == middle && below % 2 != 0);
    } else if (direction != 2) {
      up = magnitude != low && (direction > 0) != negative;
    }
    if (up) ++below;
    return static_cast<uint16_t>(below | (negative ? 0x8000 : 0));
  }

 private:
  const int digits_;
  const int least_;
  std::vector<double> values_;
};
const Format& HalfFormat() {
  static const Format format(11, -14);
  return format;
}
const Format& BfloatFormat() {
  static const Format format(8, -126);
  return format;
}

uint32_t Pair(uint16_t low, uint16_t high) {
  return low | uint32_t{high} << 16;
}
uint16_t PartOf(uint32_t pair, int which) {
  return static_cast<uint16_t>(pair >> (16 * which));
}

// What kernel Arithmetic() gives for one value of each pair.
std::vector<uint16_t> Expected(const Format& f, uint16_t a, uint16_t b,
                               uint16_t c) {
  const __float128 x = f.Value(a), y = f.Value(b), z = f.Value(c);
  const uint16_t one = f.Round(1);
  const double sum = static_cast<double>(x + y);
  std::vector<uint16_t> to = {
      f.Round(x + y),
      f.Round(x - y),
      f.Round(x * y),
      f.Round(x * y + z),
      sum > 0 ? std::min(f.Round(x + y), one) : uint16_t{0},
      static_cast<uint16_t>(a ^ 0x8000),
      static_cast<uint16_t>(a & 0x7fff),
      x < y ? a : b,
      x > y ? a : b,
      x > y ? one : uint16_t{0},
      x <= y ? uint16_t{0xffff} : uint16_t{0}};
  if (x == y) {  // -0 is the smaller zero
    to[7] = (a & 0x8000) != 0 ? a : b;
    to[8] = (a & 0x8000) != 0 ? b : a;
  }
  if (x != x || y != y) {
    to[7] = x == x ? a : y == y ? b : 0x7fff;
    to[8] = 0x7fff;
    to[9] = 0;
    to[10] = 0xffff;  // unordered, so true
  }
  return to;
}

TEST_P(HalvesTest, Arithmetic) {
  constexpr size_t kThreads = 4 * 128;
  constexpr size_t kResults = 12;
  const struct {
    const char* kernel;
    const Format& format;
  } kKinds[] = {{"half_arithmetic", HalfFormat()},
                {"bfloat_arithmetic", BfloatFormat()}};
  for (const auto& [kernel, f] : kKinds) {
    const bool halves = &f == &HalfFormat();
    const std::vector<int> numbers = Numbers(6 * kThreads);
    std::vector<uint32_t> in[3];
    for (size_t n = 0; n < numbers.size(); n += 2) {
      const auto draw = [&](int number) -> uint16_t {
        // Before compute_90 bfloat16 is computed in single precision, and rounded
        // once more: only where that is exact there is one right result.
        if (!halves) return f.Round((number % 255 - 127) / 16.0);
        return static_cast<uint16_t>(number * 7 + number / 9);
      };
      in[n / 2 % 3].push_back(Pair(draw(numbers[n]), draw(numbers[n + 1])));
    }
    if (halves) {
      const uint16_t edges[] = {0,      0x8000, 1,      0x3ff,  0x400,  0x3c00,
                                0x7bff, 0x7c00, 0xfc00, 0x7e01, 0x3555, 0xc000};
      size_t n = 0;
      for (const uint16_t a : edges) {
        for (const uint16_t b : edges) {
          in[0][n] = Pair(a, b);
          in[1][n] = Pair(b, edges[n % 12]);
          in[2][n] = Pair(edges[n % 7], a);
          ++n;
        }
      }
    }
    const DeviceAddress out = Copy(std::vector<uint32_t>(kResults * kThreads));
    Run(kernel, 4, 128, {Copy(in[0]), Copy(in[1]), Copy(in[2]), out});
    const auto got = Values<uint32_t>(out, kResults * kThreads);
    for (size_t i = 0; i < kThreads; ++i) {
      for (const int which : {0, 1}) {
        const uint16_t a = PartOf(in[0][i], which);
        const uint16_t b = PartOf(in[1][i], which);
        const auto expected = Expected(f, a, b, PartOf(in[2][i], which));
        for (size_t r = 0; r < expected.size(); ++r) {
          // What becomes of a NaN's sign is open.
          const uint16_t x = PartOf(got[kResults * i + r], which);
          const bool nan = (x & 0x7fff) > f.infinity() &&
                           (expected[r] & 0x7fff) > f.infinity();
          if (nan) continue;
          EXPECT_EQ(x, expected[r])
              << kernel << " " << r << " of " << std::hex << a << " " << b;
        }
      }
      const uint16_t sum = f.Round(__float128{f.Value(PartOf(in[0][i], 0))} +
                                   f.Value(PartOf(in[1][i], 1)));
      EXPECT_EQ(got[kResults * i + 11], sum) << kernel << " " << i;
    }
  }
}

TEST_P(HalvesTest, RectifiedProducts) {
  const Format& f = HalfFormat();
  std::vector<uint32_t> in[3];
  for (const int number : Numbers(3 * 64)) {
    in[in[0].size() > in[1].size()   ? 1
       : in[1].size() > in[2].size() ? 2
                                     : 0]
        .push_back(Pair(f.Round((number % 400 - 200) / 8.0),
                        f.Round(number % 71 - 35)));
  }
  const DeviceAddress out = Copy(std::vector<uint32_t>(64));
  Run("half_relu", 1, 64, {Copy(in[0]), Copy(in[1]), Copy(in[2]), out});
  const auto got = Values<uint32_t>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    for (const int which : {0, 1}) {
      const auto value = [&](size_t n) {
        return __float128{f.Value(PartOf(in[n][i], which))};
      };
      const __float128 x = value(0) * value(1) + value(2);
      EXPECT_EQ(PartOf(got[i], which), x > 0 ? f.Round(x) : 0) << i;
    }
  }
}

TEST_P(HalvesTest, Conversions) {
  std::vector<float> in = {0,       -0.0f,  1,     2049,  2051, 65519,
                           65520,   -1e-8f, 6e-8f, 3e-8f, 0.1f, -127.5f,
                           1000.4f, -99999, 1e30f, 257,   259,  -3.5f};
  for (const int number : Numbers(46)) {
    in.push_back(static_cast<float>(number - 16000) * 0.37f);
  }
  const DeviceAddress out = Copy(std::vector<uint32_t>(10 * in.size()));
  Run("half_conversions", 1, static_cast<uint32_t>(in.size()), {Copy(in), out});
  const auto got = Values<uint32_t>(out, 10 * in.size());
  const Format& f = HalfFormat();
  const Format& b = BfloatFormat();
  for (size_t i = 0; i < in.size(); ++i) {
    const float x = in[i];
    const uint32_t* const to = got.data() + 10 * i;
    EXPECT_EQ(to[0], f.Round(x)) << x;
    EXPECT_EQ(to[1], f.Round(x, 2)) << x;
    EXPECT_EQ(to[2], f.Round(x, 1)) << x;
    EXPECT_EQ(to[3], b.Round(x)) << x;
    EXPECT_EQ(to[4], b.Round(x, -1)) << x;
    EXPECT_EQ(to[5], Pair(f.Round(x), f.Round(-x))) << x;
    const double half = f.Value(f.Round(x));
    const double down = std::floor(half);
    EXPECT_EQ(static_cast<int32_t>(to[6]),
              std::isinf(down) ? (down > 0 ? std::numeric_limits<int>::max()
                                           : std::numeric_limits<int>::min())
                               : static_cast<int>(down))
        << x;
    const double clamped =
        std::clamp<double>(std::trunc(x), -2147483648.0, 2147483647.0);
    EXPECT_EQ(to[7], f.Round(std::isinf(clamped) ? x : clamped + 0.0)) << x;
    if (std::fabs(x) < 1e18f) {
      EXPECT_EQ(to[8], b.Round(std::trunc(x) + 0.0)) << x;
    }
    EXPECT_EQ(static_cast<int32_t>(to[9]),
              static_cast<int>(std::clamp(std::trunc(half), -128.0, 127.0)))
        << x;
  }
}

TEST_P(HalvesTest, Atomics) {
  const DeviceAddress h = Copy(std::vector<uint16_t>(4));
  const DeviceAddress h2 = Copy(std::vector<uint32_t>(4));
  const DeviceAddress b = Copy(std::vector<uint16_t>(4));
  const DeviceAddress b2 = Copy(std::vector<uint32_t>(4));
  Run("half_atomics", 1, 96, {h, h2, b, b2});
  for (size_t bin = 0; bin < 3; ++bin) {
    int sum = 0;
    int count = 0;
    for (size_t t = bin; t < 96; t += 3) sum += t % 4, ++count;
    const Format& f = HalfFormat();
    const Format& g = BfloatFormat();
    EXPECT_EQ(Values<uint16_t>(h, 3)[bin], f.Round(sum));
    EXPECT_EQ(Values<uint32_t>(h2, 3)[bin], Pair(f.Round(sum), f.Round(-sum)));
    EXPECT_EQ(Values<uint16_t>(b, 3)[bin], g.Round(sum / 2.0));
    EXPECT_EQ(Values<uint32_t>(b2, 3)[bin], Pair(g.Round(count), g.Round(sum)));
  }
}

TEST_P(HalvesTest, DotProductOfABlock) {
  const Format& f = HalfFormat();
  std::vector<uint32_t> a, b;
  const std::vector<int> numbers = Numbers(512);
  int expected = 0;
  for (const int number : numbers) {
    const int x = number % 3, y = number % 5 - 2, z = number / 7 % 2;
    a.push_back(Pair(f.Round(x), f.Round(y)));
    b.push_back(Pair(f.Round(y), f.Round(z)));
    expected += x * y + y * z;  // exact in halves
  }
  const DeviceAddress out = Copy(std::vector<float>(1));
  Run("half_dot", 1, 256, {Copy(a), Copy(b), out});
  EXPECT_EQ(Values<float>(out, 1)[0], static_cast<float>(expected));
}

TEST_P(HalvesTest, FunctionsAreNearTheHosts) {
  const Format& f = HalfFormat();
  std::vector<uint16_t> in;
  for (int i = 1; i <= 64; ++i) {
    in.push_back(f.Round((i % 2 != 0 ? i : -i) / 9.0));
  }
  const DeviceAddress out = Copy(std::vector<float>(6 * in.size()));
  Run("half_functions", 1, 64, {Copy(in), out});
  const auto got = Values<float>(out, 6 * in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = f.Value(in[i]);
    const double rounded = BfloatFormat().Value(BfloatFormat().Round(x));
    const double expected[] = {
        std::exp2(x), std::tanh(x), std::sqrt(std::fabs(x)),
        1 / x,        1.5 / x,      std::exp(rounded)};
    for (size_t r = 0; r < 6; ++r) {
      // Two units in the last place; eight bits of them for bfloat16.
      const double bound = std::fabs(expected[r]) * (r == 5 ? 0.008 : 0.002);
      EXPECT_NEAR(got[6 * i + r], expected[r], bound) << r << " of " << x;
    }
  }
}

// Calls of(a, b) for each part as an unsigned or a signed number.
uint32_t ForParts(uint32_t a, uint32_t b, int bits, bool is_signed,
                  const std::function<int(int, int)>& of) {
  uint32_t result = 0;
  const int step = 1 << bits;
  for (int at = 0; at < 32; at += bits) {
    int x = static_cast<int>(a >> at) & (step - 1);
    int y = static_cast<int>(b >> at) & (step - 1);
    if (is_signed && x >= step / 2) x -= step;
    if (is_signed && y >= step / 2) y -= step;
    result |= (static_cast<uint32_t>(of(x, y)) & (step - 1)) << at;
  }
  return result;
}
uint32_t SumOfParts(uint32_t x, int bits) {
  uint32_t sum = 0;
  for (int at = 0; at < 32; at += bits) sum += x >> at & ((1u << bits) - 1);
  return sum;
}

TEST_P(HalvesTest, PackedWholeNumbers) {
  std::vector<uint32_t> a, b;
  for (const int number : Numbers(64)) {
    a.push_back(static_cast<uint32_t>(number) * 2654435761u);
    b.push_back(static_cast<uint32_t>(number) * 40503u * 65599u + 77);
  }
  a[0] = 0x80807f7f, b[0] = 0x7fff8000, a[1] = b[1] = 0x80008000;
  const DeviceAddress out = Copy(std::vector<uint32_t>(14 * 64));
  Run("packed", 1, 64, {Copy(a), Copy(b), out});
  const auto got = Values<uint32_t>(out, 14 * 64);
  const auto difference = [](int x, int y) { return std::abs(x - y); };
  const auto most = [](int x, int y) { return std::max(x, y); };
  const auto least = [](int x, int y) { return std::min(x, y); };
  const auto sum = [](int x, int y) { return x + y; };
  uint32_t rows = 0;
  for (size_t i = 0; i < 64; ++i) {
    const auto of = [&](int bits, bool is_signed,
                        const std::function<int(int, int)>& f) {
      return ForParts(a[i], b[i], bits, is_signed, f);
    };
    const uint32_t sums = of(16, true, sum);
    const std::vector<uint32_t> expected = {
        of(8, false, sum),
        of(8, false, [](int x, int y) { return std::max(x - y, 0); }),
        of(16, true,
           [](int x, int y) { return std::clamp(x + y, -32768, 32767); }),
        of(8, false, difference),
        of(16, true, difference),
        SumOfParts(of(8, false, difference), 8),
        SumOfParts(of(16, true, difference), 16),
        of(16, true, most),
        of(8, false, least),
        of(8, false, [](int x, int y) { return (x + y + 1) / 2; }),
        of(8, true, [](int x, int y) { return x > y ? 255 : 0; }),
        of(8, true, [](int x, int) { return std::abs(x); }),
        ForParts(sums, 0x00010002, 16, true, most),
        static_cast<uint32_t>(
            std::max({static_cast<int>(a[i]), static_cast<int>(b[i]), 0}))};
    EXPECT_EQ(
        std::vector<uint32_t>(got.begin() + 14 * i, got.begin() + 14 * (i + 1)),
        expected)
        << std::hex << a[i] << " " << b[i];
  }
  std::vector<uint32_t> x, y;
  for (const int number : Numbers(256)) {
    x.push_back(static_cast<uint32_t>(number) * 2654435761u);
    y.push_back(x.back() * 17 + 3);
    rows += SumOfParts(ForParts(x.back(), y.back(), 8, false, difference), 8);
  }
  const DeviceAddress total = Copy(std::vector<uint32_t>(1));
  Run("row_difference", 1, 64, {Copy(x), Copy(y), total});
  EXPECT_EQ(Values<uint32_t>(total, 1)[0], rows);
}

}  // namespace
}  // namespace carillon::sim
