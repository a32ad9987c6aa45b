// Tensor cores give what the host computes. All numbers are so small that no sum
// is rounded; multiply_test has the others.
#include <bit>
#include <cstdint>
#include <functional>
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
