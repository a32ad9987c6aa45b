// Tensor cores give what the host computes. Where numbers are so small that no sum
// is rounded, that is the product; else what docs/simulator.md says of sums,
// computed here with the compiler's own floats. (multiply_test has it with whole
// numbers.)
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

// What an element has in memory.
struct Element {
  uint32_t bytes = 0;
  std::function<uint64_t(int)> bits;
};
uint64_t OfSingle(int x) {
  return std::bit_cast<uint32_t>(static_cast<float>(x));
}
// Exact for the few digits that there are here.
uint64_t OfHalf(int x) {
  const uint64_t single = OfSingle(x);
  if (x == 0) return 0;
  const uint64_t exponent = (single >> 23 & 0xff) - 127 + 15;
  return single >> 31 << 15 | exponent << 10 | (single >> 13 & 0x3ff);
}
const Element kHalf = {2, OfHalf};
const Element kBfloat = {2, [](int x) { return OfSingle(x) >> 16; }};
const Element kSingle = {4, OfSingle};
const Element kDouble = {
    8, [](int x) { return std::bit_cast<uint64_t>(static_cast<double>(x)); }};
const Element kByte = {1,
                       [](int x) { return uint64_t{static_cast<uint8_t>(x)}; }};
const Element kWord = {
    4, [](int x) { return uint64_t{static_cast<uint32_t>(x)}; }};

struct Matrix {
  int rows;
  int columns;
  std::vector<int> values;  // row by row
  int at(int row, int column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

class MatricesTest : public CudaTest {
 protected:
  void SetUp() override { Load("matrices"); }

  Matrix Draw(int rows, int columns, int least, int most) {
    Matrix matrix{rows, columns, {}};
    for (int i = 0; i < rows * columns; ++i) {
      state_ = state_ * 1664525 + 1013904223;
      matrix.values.push_back(least + static_cast<int>(state_ >> 8) %
                                          (most - least + 1));
    }
    return matrix;
  }
  static Matrix Product(const Matrix& a, const Matrix& b, Matrix c) {
    for (int row = 0; row < c.rows; ++row) {
      for (int column = 0; column < c.columns; ++column) {
        for (int k = 0; k < a.columns; ++k) {
          c.values[static_cast<size_t>(row * c.columns + column)] +=
              a.at(row, k) * b.at(k, column);
        }
      }
    }
    return c;
  }
  static std::vector<uint8_t> Bytes(const Matrix& matrix,
                                    const Element& element, bool by_rows) {
    std::vector<uint8_t> bytes;
    const int lines = by_rows ? matrix.rows : matrix.columns;
    const int length = by_rows ? matrix.columns : matrix.rows;
    for (int line = 0; line < lines; ++line) {
      for (int i = 0; i < length; ++i) {
        const uint64_t bits =
            element.bits(by_rows ? matrix.at(line, i) : matrix.at(i, line));
        for (uint32_t byte = 0; byte < element.bytes; ++byte) {
          bytes.push_back(static_cast<uint8_t>(bits >> 8 * byte));
        }
      }
    }
    return bytes;
  }
  DeviceAddress Place(const Matrix& matrix, const Element& element,
                      bool by_rows) {
    return Copy(Bytes(matrix, element, by_rows));
  }
  bool Has(const char* kernel) const {
    return program_->FindEntry(kernel) != nullptr;
  }
  bool Since(int architecture) const {
    return std::stoi(GetParam().architecture) >= architecture;
  }

  uint32_t state_ = 1;
};
std::vector<CudaForm> Forms() {
  std::vector<CudaForm> forms = CudaForms();
  if (CARILLON_HAS_NVCC != 0) {
    forms.insert(forms.end(), {{"80", false}, {"80", true}});
  }
  return forms;
}
INSTANTIATE_TEST_SUITE_P(All, MatricesTest, testing::ValuesIn(Forms()),
                         [](const auto& info) {
                           return info.param.architecture +
                                  (info.param.timed ? "Timed" : "");
                         });

TEST_P(MatricesTest, ByWmmaInEachShapeTypeAndOrder) {
  const struct {
    const char* kernel;
    int m, n;  // of a tile
    const Element& of_a;
    const Element& of_c;
    bool a_by_rows, b_by_rows, c_by_rows;
    int since;
    int least = -3;
  } kKernels[] = {
      {"half_16_rows_columns", 16, 16, kHalf, kSingle, true, false, true, 75},
      {"half_16_columns_rows", 16, 16, kHalf, kSingle, false, true, false, 75},
      {"half_32_rows_rows", 32, 8, kHalf, kHalf, true, true, true, 75},
      {"half_8_columns_columns", 8, 32, kHalf, kSingle, false, false, false,
       75},
      {"half_8_rows_columns", 8, 32, kHalf, kHalf, true, false, true, 75},
      {"bytes_16", 16, 16, kByte, kWord, true, false, true, 75},
      {"bytes_32", 32, 8, kByte, kWord, false, true, false, 75, 0},
      {"bytes_8", 8, 32, kByte, kWord, true, true, true, 75},
      {"bfloat_16", 16, 16, kBfloat, kSingle, true, false, true, 80},
      {"bfloat_32", 32, 8, kBfloat, kSingle, true, true, false, 80},
      {"bfloat_8", 8, 32, kBfloat, kSingle, false, false, true, 80},
      {"tf32_16", 16, 16, kSingle, kSingle, true, false, true, 80},
      {"tf32_16_turned", 16, 16, kSingle, kSingle, false, true, false, 80},
      {"doubles", 8, 8, kDouble, kDouble, true, false, true, 80},
      {"doubles_turned", 8, 8, kDouble, kDouble, false, true, false, 80},
  };
  constexpr int kM = 64, kN = 64, kDepth = 48;
  for (const auto& kernel : kKernels) {
    SCOPED_TRACE(kernel.kernel);
    ASSERT_EQ(Has(kernel.kernel), Since(kernel.since));
    if (!Has(kernel.kernel)) continue;
    const Matrix a = Draw(kM, kDepth, kernel.least, 4);
    const Matrix b = Draw(kDepth, kN, kernel.least, 4);
    const Matrix c = Draw(kM, kN, -9, 9);
    const DeviceAddress out = Place(c, kernel.of_c, kernel.c_by_rows);
    const int warps = kM / kernel.m * (kN / kernel.n);
    ASSERT_EQ(
        Run(kernel.kernel, static_cast<uint32_t>(warps / 4), 128,
            {Place(a, kernel.of_a, kernel.a_by_rows),
             Place(b, kernel.of_a, kernel.b_by_rows), out, kM, kN, kDepth}),
        absl::OkStatus());
    EXPECT_EQ(Values<uint8_t>(out, kM * kN * kernel.of_c.bytes),
              Bytes(Product(a, b, c), kernel.of_c, kernel.c_by_rows));
  }
}

// --- Any floats.

enum class Kind { kF16, kBf16, kTf32, kF32, kF64 };
struct Float {
  Kind kind;
  uint32_t bytes;
  int digits;  // explicit ones
  int least;   // the exponent of the least normal number
};
constexpr Float kOfHalf = {Kind::kF16, 2, 10, -14};
constexpr Float kOfBfloat = {Kind::kBf16, 2, 7, -126};
constexpr Float kOfTf32 = {Kind::kTf32, 4, 23, -126};  // as it is stored
constexpr Float kOfSingle = {Kind::kF32, 4, 23, -126};
constexpr Float kOfDouble = {Kind::kF64, 8, 52, -1022};

// tf32's numbers are stored as singles, and the kernels round them.
double ValueOf(const Float& type, uint64_t bits) {
  switch (type.kind) {
    case Kind::kF16:
      return static_cast<double>(
          std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    case Kind::kBf16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits << 16));
    case Kind::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case Kind::kF64:
      return std::bit_cast<double>(bits);
    case Kind::kTf32:
      break;
  }
  const auto single = std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (!std::isfinite(single) || single == 0) return single;
  // To the nearest of ten digits, away from zero.
  const double unit = std::ldexp(1, std::max(std::ilogb(single), -126) - 10);
  const double rounded = std::round(single / unit) * unit;
  return std::fabs(rounded) < 0x1p128 ? rounded
                                      : std::copysign(INFINITY, single);
}

// One step of an accumulator: `products` are pairs of factors.
uint64_t AddProducts(const Float& of, const Float& accumulator, uint64_t bits,
                     const std::vector<std::pair<double, double>>& products) {
  const bool half = accumulator.kind == Kind::kF16;
  const double c = ValueOf(accumulator, bits);
  double whole = c;
  int greatest = -126;
  const auto consider = [&](double x, int exponent) {
    if (x != 0) greatest = std::max(greatest, exponent);
  };
  for (const auto& [a, b] : products) whole += a * b;
  if (std::isnan(whole)) return half ? 0x7fff : 0x7fff'ffff;
  if (std::isinf(whole)) {
    return (half ? 0x7c00u : 0x7f80'0000u) |
           (whole < 0 ? (half ? 0x8000u : 0x8000'0000u) : 0);
  }
  consider(c, std::max(std::ilogb(c), accumulator.least));
  for (const auto& [a, b] : products) {
    consider(a * b, std::max(std::ilogb(a), of.least) +
                        std::max(std::ilogb(b), of.least));
  }
  const auto units = [&](double x) {
    return std::trunc(std::ldexp(x, 24 - greatest));
  };
  double sum = units(c);
  for (const auto& [a, b] : products) sum += units(a * b);
  if (sum == 0) return 0;
  const double value = std::ldexp(sum, greatest - 24);
  if (half) return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  if (std::fabs(value) >= 0x1p128) {
    return 0x7f80'0000u | (value < 0 ? 0x8000'0000u : 0);
  }
  auto cut = static_cast<float>(value);
  if (std::fabs(cut) > std::fabs(value)) cut = std::nextafter(cut, 0.f);
  return std::bit_cast<uint32_t>(cut);
}

// The bits of a matrix's elements, row by row.
struct Bits {
  size_t rows, columns;
  std::vector<uint64_t> bits;
  uint64_t at(size_t row, size_t column) const {
    return bits[row * columns + column];
  }
};
std::vector<uint8_t> Stored(const Bits& matrix, uint32_t bytes, bool by_rows) {
  std::vector<uint8_t> all;
  const size_t lines = by_rows ? matrix.rows : matrix.columns;
  const size_t length = by_rows ? matrix.columns : matrix.rows;
  for (size_t line = 0; line < lines; ++line) {
    for (size_t i = 0; i < length; ++i) {
      const uint64_t x = by_rows ? matrix.at(line, i) : matrix.at(i, line);
      for (uint32_t byte = 0; byte < bytes; ++byte) {
        all.push_back(static_cast<uint8_t>(x >> 8 * byte));
      }
    }
  }
  return all;
}

// Most are near one, so that sums cancel; few are special, or all sums would be.
Bits DrawBits(const Float& type, size_t rows, size_t columns,
              std::mt19937_64& random) {
  const uint32_t width = 8 * type.bytes;
  const uint64_t all = ~uint64_t{0} >> (64 - width);
  const uint64_t exponents = all >> 1 >> type.digits << type.digits;
  const uint64_t step = uint64_t{1} << type.digits;
  Bits matrix{rows, columns, std::vector<uint64_t>(rows * columns)};
  for (uint64_t& bits : matrix.bits) {
    bits = random() & all;
    const uint64_t rest = bits & ~exponents;
    switch (const uint64_t choice = random() % 1024) {
      case 0:
        bits = rest | exponents;  // most likely a NaN
        break;
      case 1:
        bits = (bits & ~(all >> 1)) | exponents;
        break;
      default:
        if (choice < 64) {  // any that is finite
          if ((bits & exponents) == exponents) bits = rest;
        } else if (choice < 160) {
          bits = rest | random() % 2 * step;  // subnormal, or nearly so
        } else if (choice < 192) {
          bits = 0;
        } else {
          bits = rest | ((exponents >> 1 & exponents) + random() % 12 * step -
                         5 * step);
        }
    }
  }
  return matrix;
}

TEST_P(MatricesTest, AnyFloatsAreAddedByTheRule) {
  const struct {
    const char* kernel;
    size_t m, n;  // of a tile
    const Float& of_a;
    const Float& of_c;
    size_t step;
    bool a_by_rows, b_by_rows, c_by_rows;
    int since;
  } kKernels[] = {
      {"half_16_rows_columns", 16, 16, kOfHalf, kOfSingle, 8, true, false, true,
       75},
      {"half_16_columns_rows", 16, 16, kOfHalf, kOfSingle, 8, false, true,
       false, 75},
      {"half_32_rows_rows", 32, 8, kOfHalf, kOfHalf, 8, true, true, true, 75},
      {"half_8_columns_columns", 8, 32, kOfHalf, kOfSingle, 8, false, false,
       false, 75},
      {"half_8_rows_columns", 8, 32, kOfHalf, kOfHalf, 8, true, false, true,
       75},
      {"bfloat_16", 16, 16, kOfBfloat, kOfSingle, 8, true, false, true, 80},
      {"bfloat_32", 32, 8, kOfBfloat, kOfSingle, 8, true, true, false, 80},
      {"bfloat_8", 8, 32, kOfBfloat, kOfSingle, 8, false, false, true, 80},
      {"tf32_16", 16, 16, kOfTf32, kOfSingle, 4, true, false, true, 80},
      {"tf32_16_turned", 16, 16, kOfTf32, kOfSingle, 4, false, true, false, 80},
      {"doubles", 8, 8, kOfDouble, kOfDouble, 1, true, false, true, 80},
      {"doubles_turned", 8, 8, kOfDouble, kOfDouble, 1, false, true, false, 80},
  };
  std::mt19937_64 random(5);
  for (int round = 0; round < (GetParam().timed ? 1 : 3); ++round) {
    for (const auto& kernel : kKernels) {
      SCOPED_TRACE(kernel.kernel);
      if (!Since(kernel.since)) continue;
      // Not all strides are powers of two.
      const size_t m = 32 * (1 + random() % 3), n = 64 * (1 + random() % 2);
      const size_t depth = 16 * (1 + random() % 5);
      const Bits a = DrawBits(kernel.of_a, m, depth, random);
      const Bits b = DrawBits(kernel.of_a, depth, n, random);
      const Bits c = DrawBits(kernel.of_c, m, n, random);
      const uint32_t bytes = kernel.of_c.bytes;
      const DeviceAddress out = Copy(Stored(c, bytes, kernel.c_by_rows));
      ASSERT_EQ(
          Run(kernel.kernel,
              static_cast<uint32_t>(m / kernel.m * (n / kernel.n) / 4), 128,
              {Copy(Stored(a, kernel.of_a.bytes, kernel.a_by_rows)),
               Copy(Stored(b, kernel.of_a.bytes, kernel.b_by_rows)), out, m, n,
               depth}),
          absl::OkStatus());
      const auto got = Values<uint8_t>(out, m * n * bytes);
      size_t finite = 0;
      for (size_t row = 0; row < m; ++row) {
        for (size_t column = 0; column < n; ++column) {
          uint64_t expected = c.at(row, column);
          for (size_t first = 0; first < depth; first += kernel.step) {
            std::vector<std::pair<double, double>> products;
            for (size_t k = first; k < first + kernel.step; ++k) {
              products.emplace_back(ValueOf(kernel.of_a, a.at(row, k)),
                                    ValueOf(kernel.of_a, b.at(k, column)));
            }
            expected = bytes == 8 ? std::bit_cast<uint64_t>(std::fma(
                                        products[0].first, products[0].second,
                                        std::bit_cast<double>(expected)))
                                  : AddProducts(kernel.of_a, kernel.of_c,
                                                expected, products);
          }
          uint64_t actual = 0;
          const size_t at =
              kernel.c_by_rows ? row * n + column : column * m + row;
          std::copy_n(got.begin() + static_cast<std::ptrdiff_t>(at * bytes),
                      bytes, reinterpret_cast<uint8_t*>(&actual));
          finite += std::isfinite(ValueOf(kernel.of_c, expected));
          // PTX does not say which NaN a double is.
          if (bytes == 8 && std::isnan(std::bit_cast<double>(expected))) {
            EXPECT_TRUE(std::isnan(std::bit_cast<double>(actual)));
            continue;
          }
          ASSERT_EQ(actual, expected)
              << "round " << round << ", row " << row << ", column " << column;
        }
      }
      // Neither kind of sum is rare.
      EXPECT_GT(finite, m * n / 4);
      EXPECT_LT(finite, m * n);
    }
  }
}

TEST_P(MatricesTest, ThroughSharedMemoryAndScaledByElements) {
  constexpr int kDepth = 96;
  const Matrix a = Draw(64, kDepth, -3, 3);
  const Matrix b = Draw(kDepth, 64, -3, 3);
  const Matrix c = Draw(64, 64, -9, 9);
  const DeviceAddress out = Place(c, kSingle, true);
  ASSERT_EQ(Run("half_through_shared", 1, 128,
                {Place(a, kHalf, true), Place(b, kHalf, true),
                 Place(c, kSingle, true), out, kDepth}),
            absl::OkStatus());
  Matrix expected = Product(a, b, {64, 64, std::vector<int>(64 * 64)});
  for (size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] = 2 * expected.values[i] - 3 * c.values[i];
  }
  EXPECT_EQ(Values<uint8_t>(out, 64 * 64 * 4), Bytes(expected, kSingle, true));
}

TEST_P(MatricesTest, InStagesOfAsynchronousCopies) {
  ASSERT_EQ(Has("half_in_stages"), Since(80));
  if (!Has("half_in_stages")) return;
  constexpr int kDepth = 160;
  const Matrix a = Draw(64, kDepth, -3, 3);
  const Matrix b = Draw(kDepth, 64, -3, 3);
  const DeviceAddress out = Zeroes(64 * 64);
  ASSERT_EQ(Run("half_in_stages", 1, 128,
                {Place(a, kHalf, true), Place(b, kHalf, true), out, kDepth}),
            absl::OkStatus());
  EXPECT_EQ(
      Values<uint8_t>(out, 64 * 64 * 4),
      Bytes(Product(a, b, {64, 64, std::vector<int>(64 * 64)}), kSingle, true));
}

TEST_P(MatricesTest, ByMmaWithFragmentsAsTheIsaDrawsThem) {
  const struct {
    const char* kernel;
    const Element& of_a;
    const Element& of_c;
    bool b_by_rows;
    int since;
    int least_of_b = -3;
  } kKernels[] = {
      {"half_by_ldmatrix", kHalf, kSingle, true, 75},
      {"bytes_by_words", kByte, kWord, false, 75, 0},
      {"tf32_by_mma", kSingle, kSingle, false, 80},
      {"doubles_by_mma", kDouble, kDouble, false, 80},
  };
  constexpr int kDepth = 96;
  for (const auto& kernel : kKernels) {
    SCOPED_TRACE(kernel.kernel);
    ASSERT_EQ(Has(kernel.kernel), Since(kernel.since));
    if (!Has(kernel.kernel)) continue;
    const Matrix a = Draw(16, kDepth, -4, 3);
    const Matrix b = Draw(kDepth, 8, kernel.least_of_b, 4);
    const Matrix c = Draw(16, 8, -9, 9);
    const DeviceAddress out = Place(c, kernel.of_c, true);
    ASSERT_EQ(Run(kernel.kernel, 1, 32,
                  {Place(a, kernel.of_a, true),
                   Place(b, kernel.of_a, kernel.b_by_rows), out, kDepth}),
              absl::OkStatus());
    EXPECT_EQ(Values<uint8_t>(out, 16 * 8 * kernel.of_c.bytes),
              Bytes(Product(a, b, c), kernel.of_c, true));
  }
}

TEST_P(MatricesTest, TransposesInRegistersAndByStmatrix) {
  std::vector<uint16_t> in;
  for (int i = 0; i < 64; ++i) in.push_back(static_cast<uint16_t>(1000 + i));
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("transposes", 1, 32, {Copy(in), out}), absl::OkStatus());
  const auto got = Values<uint16_t>(out, 128);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], in[i % 8 * 8 + i / 8]) << i;
    EXPECT_EQ(got[64 + i], in[i % 8 * 8 + i / 8]) << i;
  }
}

}  // namespace
}  // namespace carillon::sim
