// mma's fragments are where the PTX ISA says, and its sums are those of the rule
// in multiply.cc, computed here in another way: by exact whole numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/operations/handlers.h"

namespace carillon::sim {
namespace {

// Row and column of element i of a lane, by the formulas of the PTX ISA: g is
// its groupID, t its threadID_in_group.
struct Cell {
  int row;
  int column;
};
using PlaceOf = std::function<Cell(int g, int t, int i)>;

struct Shape {
  std::string name;
  int m, n, k;
  int bits;  // of an element of A
  PlaceOf a, b;
};

Cell PlaceInC(int g, int t, int i) {
  return {i < 2 ? g : g + 8, t * 2 + (i & 1)};
}
// Elements come in groups of `per`; every second group of A is 8 rows below.
PlaceOf InStripOfA(int per, int far) {
  return [=](int g, int t, int i) -> Cell {
    const int group = i / per;
    const bool upper = group == 0 || group == 2;
    return {upper ? g : g + 8, t * per + i % per + (group < 2 ? 0 : far)};
  };
}
PlaceOf InB(int per, int far) {
  return [=](int g, int t, int i) -> Cell {
    return {t * per + i % per + (i < per ? 0 : far), g};
  };
}
PlaceOf InRowOfA(int per) {
  return [=](int g, int t, int i) -> Cell { return {g, t * per + i}; };
}
Cell InAOfDoubles(int g, int t, int i) {
  return {i % 2 == 0 ? g : g + 8, i % 2 == 0 ? i * 2 + t : i * 2 - 2 + t};
}
Cell InBOfDoubles(int g, int t, int i) { return {t + i * 4, g}; }

const Shape kHalves8 = {"m16n8k8", 16, 8, 8, 16, InStripOfA(2, 8), InB(2, 8)};
const Shape kHalves16 = {"m16n8k16",       16,       8, 16, 16,
                         InStripOfA(2, 8), InB(2, 8)};
const Shape kTf32x4 = {"m16n8k4", 16, 8, 4, 32, InStripOfA(1, 4), InB(1, 4)};
const Shape kTf32x8 = {"m16n8k8", 16, 8, 8, 32, InStripOfA(1, 4), InB(1, 4)};
const Shape kBytes[] = {
    {"m8n8k16", 8, 8, 16, 8, InRowOfA(4), InB(4, 16)},
    {"m16n8k16", 16, 8, 16, 8, InStripOfA(4, 16), InB(4, 16)},
    {"m16n8k32", 16, 8, 32, 8, InStripOfA(4, 16), InB(4, 16)}};
const Shape kNibbles[] = {
    {"m8n8k32", 8, 8, 32, 4, InRowOfA(8), InB(8, 32)},
    {"m16n8k32", 16, 8, 32, 4, InStripOfA(8, 32), InB(8, 32)},
    {"m16n8k64", 16, 8, 64, 4, InStripOfA(8, 32), InB(8, 32)}};
const Shape kSingleBits[] = {
    {"m8n8k128", 8, 8, 128, 1, InRowOfA(32), InB(32, 128)},
    {"m16n8k128", 16, 8, 128, 1, InStripOfA(32, 128), InB(32, 128)},
    {"m16n8k256", 16, 8, 256, 1, InStripOfA(32, 128), InB(32, 128)}};
const Shape kDoubles[] = {
    {"m8n8k4", 8, 8, 4, 64, InRowOfA(1), InB(1, 4)},
    {"m16n8k4", 16, 8, 4, 64, InAOfDoubles, InBOfDoubles},
    {"m16n8k8", 16, 8, 8, 64, InAOfDoubles, InBOfDoubles},
    {"m16n8k16", 16, 8, 16, 64, InAOfDoubles, InBOfDoubles}};

// The bits of a matrix's elements, row by row.
class Bits {
 public:
  Bits(int rows, int columns)
      : rows_(rows),
        columns_(columns),
        bits_(static_cast<size_t>(rows * columns)) {}
  uint64_t& at(int row, int column) {
    return bits_[static_cast<size_t>(row * columns_ + column)];
  }
  uint64_t at(int row, int column) const {
    return bits_[static_cast<size_t>(row * columns_ + column)];
  }
  void Fill(const std::function<uint64_t()>& value) {
    for (uint64_t& bits : bits_) bits = value();
  }
  int rows() const { return rows_; }
  int columns() const { return columns_; }

 private:
  int rows_, columns_;
  std::vector<uint64_t> bits_;
};

int RegisterBits(int bits) { return bits == 64 ? 64 : 32; }
int Registers(const Bits& matrix, int bits) {
  return matrix.rows() * matrix.columns() * bits / (32 * RegisterBits(bits));
}
// All lanes' first registers, then all their second ones.
void Spread(const Bits& matrix, int bits, const PlaceOf& place,
            std::vector<uint64_t>& to) {
  const int per = RegisterBits(bits) / bits;
  for (int r = 0; r < Registers(matrix, bits); ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      uint64_t value = 0;
      for (int i = 0; i < per; ++i) {
        const Cell cell = place(lane / 4, lane % 4, r * per + i);
        value |= matrix.at(cell.row, cell.column) << (bits * i);
      }
      to.push_back(value);
    }
  }
}

class MmaTest : public testing::TestWithParam<bool> {
 protected:
  // Executes `mma.sync.aligned.SHAPE.row.col` + suffixes. `c_bits` and `d_bits`
  // are those of an element of C and of D.
  Bits Multiply(const Shape& shape, const std::string& suffixes, const Bits& a,
                const Bits& b, const Bits& c, int c_bits) {
    Bits d(shape.m, shape.n);
    std::vector<uint64_t> in;
    Spread(a, shape.bits, shape.a, in);
    Spread(b, shape.bits, shape.b, in);
    Spread(c, c_bits, PlaceInC, in);
    const std::array<int, 4> counts = {
        Registers(d, c_bits), Registers(a, shape.bits),
        Registers(b, shape.bits), Registers(c, c_bits)};
    const std::array<int, 4> widths = {
        RegisterBits(c_bits), RegisterBits(shape.bits),
        RegisterBits(shape.bits), RegisterBits(c_bits)};
    const std::string instruction =
        fmt::format("mma.sync.aligned.{}.row.col{}", shape.name, suffixes);
    std::string text =
        ".visible .entry k(.param .u64 p) { .reg .b32 %t; .reg .b64 %in;\n"
        "mov.u32 %t, %tid.x; ld.param.u64 %in, [p];\n"
        "mad.wide.u32 %in, %t, 8, %in;\n";
    std::string operands;
    int at = 0;
    for (size_t f = 0; f < 4; ++f) {
      std::vector<std::string> names;
      for (int r = 0; r < counts[f]; ++r) {
        names.push_back(fmt::format("%{}{}", "dabc"[f], r));
        text += fmt::format(".reg .b{} {};\n", widths[f], names.back());
        if (f == 0) continue;
        text += fmt::format("ld.global.b{} {}, [%in+{}];\n", widths[f],
                            names.back(), 256 * at++);
      }
      operands +=
          fmt::format("{}{{{}}}", f == 0 ? "" : ", ", fmt::join(names, ", "));
    }
    text += instruction + " " + operands + ";\n";
    for (int r = 0; r < counts[0]; ++r) {
      text += fmt::format("st.global.b{} [%in+{}], %d{};\n", widths[0],
                          256 * (at + r), r);
    }
    Bench bench;
    const absl::Status loaded = bench.Load(text + "ret; }");
    EXPECT_TRUE(loaded.ok()) << loaded;
    if (!loaded.ok()) return d;
    bench.Use(GetParam());
    const DeviceAddress memory = bench.Allocate(256 * (at + counts[0]));
    std::ranges::copy(in, bench.At<uint64_t>(memory, in.size()).begin());
    const auto ran = bench.Run("k", {1, 1, 1}, {32, 1, 1}, {memory});
    EXPECT_TRUE(ran.ok()) << ran.status();
    const auto out = bench.At<uint64_t>(memory + 256 * at, 32 * counts[0]);
    const int per = widths[0] / c_bits;
    for (int r = 0; r < counts[0]; ++r) {
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < per; ++i) {
          const Cell cell = PlaceInC(lane / 4, lane % 4, r * per + i);
          d.at(cell.row, cell.column) =
              out[static_cast<size_t>(32 * r + lane)] >> (c_bits * i) &
              (~uint64_t{0} >> (64 - c_bits));
        }
      }
    }
    return d;
  }

  std::mt19937_64 random_{7};
};
std::vector<bool> Versions() {
  return HasX86_64V3() ? std::vector<bool>{false, true}
                       : std::vector<bool>{false};
}
INSTANTIATE_TEST_SUITE_P(, MmaTest, testing::ValuesIn(Versions()),
                         [](const auto& info) {
                           return info.param ? "X8664V3" : "Baseline";
                         });

// --- Whole numbers.

int64_t Extend(uint64_t bits, int width, bool is_signed) {
  const auto value = static_cast<int64_t>(bits);
  return is_signed && (bits >> (width - 1) & 1) != 0
             ? value - (int64_t{1} << width)
             : value;
}

TEST_P(MmaTest, WholeNumbersAreExactAndWrapOrSaturate) {
  for (const std::span<const Shape> shapes :
       {std::span<const Shape>(kBytes), std::span<const Shape>(kNibbles)}) {
    for (const Shape& shape : shapes) {
      for (int signs = 0; signs < 8; ++signs) {
        const bool a_signed = (signs & 1) != 0;
        const bool b_signed = (signs & 2) != 0;
        const bool saturates = (signs & 4) != 0;
        const uint64_t mask = (1u << shape.bits) - 1;
        Bits a(shape.m, shape.k), b(shape.k, shape.n), c(shape.m, shape.n);
        a.Fill([&] { return random_() & mask; });
        b.Fill([&] { return random_() & mask; });
        int n = 0;
        // Some are so near the ends that the sum goes beyond.
        c.Fill([&]() -> uint64_t {
          return (n++ % 3 == 0 ? 0x7fff'fff0u
                  : n % 3 == 0 ? 0x8000'0010u
                               : random_()) &
                 0xffff'ffff;
        });
        const std::string suffixes = fmt::format(
            "{}.s32.{}{}.{}{}.s32", saturates ? ".satfinite" : "",
            a_signed ? "s" : "u", shape.bits, b_signed ? "s" : "u", shape.bits);
        const Bits d = Multiply(shape, suffixes, a, b, c, 32);
        for (int row = 0; row < shape.m; ++row) {
          for (int column = 0; column < shape.n; ++column) {
            int64_t sum = Extend(c.at(row, column), 32, true);
            for (int k = 0; k < shape.k; ++k) {
              sum += Extend(a.at(row, k), shape.bits, a_signed) *
                     Extend(b.at(k, column), shape.bits, b_signed);
            }
            if (saturates) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
            ASSERT_EQ(d.at(row, column), static_cast<uint32_t>(sum))
                << shape.name << suffixes << " " << row << " " << column;
          }
        }
      }
    }
  }
}

TEST_P(MmaTest, BinaryMatricesCountBits) {
  for (const Shape& shape : kSingleBits) {
    for (const bool exclusive : {false, true}) {
      Bits a(shape.m, shape.k), b(shape.k, shape.n), c(shape.m, shape.n);
      a.Fill([&] { return random_() & 1; });
      b.Fill([&] { return random_() & 1; });
      c.Fill([&] { return random_() & 0xffff'ffff; });
      const Bits d = Multiply(
          shape,
          fmt::format(".s32.b1.b1.s32.{}.popc", exclusive ? "xor" : "and"), a,
          b, c, 32);
      for (int row = 0; row < shape.m; ++row) {
        for (int column = 0; column < shape.n; ++column) {
          uint64_t sum = c.at(row, column);
          for (int k = 0; k < shape.k; ++k) {
            const uint64_t x = a.at(row, k), y = b.at(k, column);
            sum += exclusive ? x ^ y : x & y;
          }
          ASSERT_EQ(d.at(row, column), sum & 0xffff'ffff)
              << shape.name << exclusive;
        }
      }
    }
  }
}

// --- Doubles.

TEST_P(MmaTest, DoublesAreAddedByFmaFromTheLowestUp) {
  for (const Shape& shape : kDoubles) {
    Bits a(shape.m, shape.k), b(shape.k, shape.n), c(shape.m, shape.n);
    for (Bits* matrix : {&a, &b, &c}) {
      matrix->Fill([&] {
        const double x =
            std::ldexp(static_cast<double>(static_cast<int64_t>(random_())),
                       static_cast<int>(random_() % 60) - 90);
        return std::bit_cast<uint64_t>(x);
      });
    }
    const Bits d = Multiply(
        shape, random_() % 2 == 0 ? ".f64.f64.f64.f64" : ".f64.f64.f64.f64.rn",
        a, b, c, 64);
    for (int row = 0; row < shape.m; ++row) {
      for (int column = 0; column < shape.n; ++column) {
        auto sum = std::bit_cast<double>(c.at(row, column));
        for (int k = 0; k < shape.k; ++k) {
          sum = std::fma(std::bit_cast<double>(a.at(row, k)),
                         std::bit_cast<double>(b.at(k, column)), sum);
        }
        ASSERT_EQ(std::bit_cast<double>(d.at(row, column)), sum) << shape.name;
      }
    }
  }
}

// --- Floats.

// A format by its number of explicit digits, the exponent of its least normal
// number, and the width of its registers' part.
struct Format {
  std::string name;
  int digits;
  int least;
  int bits;
  int unused = 0;  // the lowest bits, which do not count

  double Value(uint64_t x) const {
    x = x >> unused;
    const int width = bits - unused;
    const int field =
        static_cast<int>(x >> digits & ((1u << (width - 1 - digits)) - 1));
    const double fraction =
        static_cast<double>(x & ((1u << digits) - 1)) / (1 << digits);
    const double sign = (x >> (width - 1) & 1) != 0 ? -1 : 1;
    if (field == (1 << (width - 1 - digits)) - 1) {
      return fraction != 0 ? NAN : sign * HUGE_VAL;
    }
    return sign * std::ldexp(fraction + (field != 0 ? 1 : 0),
                             std::max(field, 1) - 1 + least);
  }
  int Exponent(double x) const {
    return x == 0 ? -100000 : std::max(std::ilogb(x), least);
  }
  // Rounds an exact value: to nearest, or towards zero.
  uint64_t Round(__int128 whole, int exponent, bool to_nearest) const {
    const uint64_t sign = whole < 0 ? uint64_t{1} << (bits - 1) : 0;
    unsigned __int128 x = whole < 0 ? -static_cast<unsigned __int128>(whole)
                                    : static_cast<unsigned __int128>(whole);
    if (x == 0) return 0;
    int top = 0;
    while (x >> top >> 1 != 0) ++top;
    const int last = std::max(top + exponent, least) - digits;
    // `x` becomes a multiple of 2^last.
    for (; exponent > last; --exponent) x <<= 1;
    const int drop = last - exponent;
    unsigned __int128 kept = drop > 120 ? 0 : x >> drop;
    const unsigned __int128 rest = x - (drop > 120 ? 0 : kept << drop);
    const unsigned __int128 half =
        drop == 0 ? 0 : static_cast<unsigned __int128>(1) << (drop - 1);
    if (to_nearest && drop > 0 &&
        (rest > half || (rest == half && kept % 2 != 0))) {
      ++kept;
    }
    const uint64_t infinity = ((uint64_t{1} << (bits - 1 - digits)) - 1)
                              << digits;
    // The implicit digit adds one to the exponent's field.
    const uint64_t field =
        kept >> digits == 0 ? 0 : static_cast<uint64_t>(last + digits - least);
    const uint64_t result = (field << digits) + static_cast<uint64_t>(kept);
    return sign | std::min(result, infinity);
  }
};
const Format kF16 = {"f16", 10, -14, 16};
const Format kBf16 = {"bf16", 7, -126, 16};
const Format kTf32 = {"tf32", 10, -126, 32, 13};
const Format kF32 = {"f32", 23, -126, 32};

// What multiply.cc says of a block of products.
uint64_t AddBlock(const Format& of, const Format& accumulator, uint64_t c,
                  const std::vector<std::pair<uint64_t, uint64_t>>& factors) {
  const double c_value = accumulator.Value(c);
  double special = c_value;
  int greatest = std::max(accumulator.Exponent(c_value), -126);
  for (const auto& [x, y] : factors) {
    const double a = of.Value(x), b = of.Value(y);
    special += a * b;
    if (a != 0 && b != 0 && std::isfinite(a * b)) {
      greatest = std::max(greatest, of.Exponent(a) + of.Exponent(b));
    }
  }
  const bool half = accumulator.bits == 16;
  if (!std::isfinite(special)) {
    if (std::isnan(special)) return half ? 0x7fff : 0x7fffffff;
    return (half ? 0x7c00u : 0x7f800000u) |
           (special < 0 ? (half ? 0x8000u : 0x80000000u) : 0);
  }
  // A product has 22 digits: doubles hold it, and its multiple of 2^(E - 24).
  const auto units = [&](double x) {
    return static_cast<__int128>(std::trunc(std::ldexp(x, 24 - greatest)));
  };
  __int128 sum = units(c_value);
  for (const auto& [x, y] : factors) sum += units(of.Value(x) * of.Value(y));
  return accumulator.Round(sum, greatest - 24, half);
}

struct FloatForm {
  const Shape& shape;
  const Format& of;
  const Format& accumulator;
  int block;
  std::string suffixes() const {
    return fmt::format(".{0}.{1}.{1}.{0}", accumulator.name, of.name);
  }
};
const FloatForm kFloatForms[] = {
    {kHalves8, kF16, kF32, 8},  {kHalves16, kF16, kF32, 8},
    {kHalves8, kF16, kF16, 8},  {kHalves16, kF16, kF16, 8},
    {kHalves8, kBf16, kF32, 8}, {kHalves16, kBf16, kF32, 8},
    {kTf32x4, kTf32, kF32, 4},  {kTf32x8, kTf32, kF32, 4},
};

uint64_t Expected(const FloatForm& form, const Bits& a, const Bits& b,
                  const Bits& c, int row, int column) {
  uint64_t sum = c.at(row, column);
  for (int first = 0; first < form.shape.k; first += form.block) {
    std::vector<std::pair<uint64_t, uint64_t>> factors;
    for (int k = first; k < first + form.block; ++k) {
      factors.emplace_back(a.at(row, k), b.at(k, column));
    }
    sum = AddBlock(form.of, form.accumulator, sum, factors);
  }
  return sum;
}

TEST_P(MmaTest, FloatsAreAddedInBlocksAndCutOff) {
  // Bits that decide the exponents: all, near each other, subnormal, and all but
  // NaNs and infinities.
  enum Kind { kAny, kNear, kTiny, kFinite, kKinds };
  for (const FloatForm& form : kFloatForms) {
    for (int round = 0; round < 40; ++round) {
      const auto draw = [&](const Format& f, Kind kind) {
        const auto mask = f.bits == 16 ? 0xffffu : 0xffffffffu;
        const uint64_t x = random_() & mask;
        const int shift = f.digits + f.unused;
        const uint64_t exponents = (mask >> 1 >> shift)
                                   << shift;  // the field's bits
        const uint64_t rest = x & ~exponents;
        const uint64_t middle = (exponents >> 1) & exponents;
        switch (kind) {
          case kNear:
            return rest | (middle + ((random_() % 7) << shift));
          case kTiny:
            return rest | (random_() % 3) << shift;
          case kFinite:
            return (x & exponents) == exponents ? rest : x;
          default:
            return x;
        }
      };
      const auto kind = static_cast<Kind>(round % kKinds);
      Bits a(form.shape.m, form.shape.k), b(form.shape.k, form.shape.n),
          c(form.shape.m, form.shape.n);
      a.Fill([&] { return draw(form.of, kind); });
      // Few of a matrix's numbers are special, or every sum would be.
      b.Fill([&] {
        return draw(form.of,
                    kind == kAny && random_() % 64 != 0 ? kNear : kind);
      });
      c.Fill([&] { return draw(form.accumulator, kind); });
      const Bits d =
          Multiply(form.shape, form.suffixes(), a, b, c, form.accumulator.bits);
      for (int row = 0; row < form.shape.m; ++row) {
        for (int column = 0; column < form.shape.n; ++column) {
          ASSERT_EQ(d.at(row, column), Expected(form, a, b, c, row, column))
              << form.shape.name << form.suffixes() << " round " << round
              << ", row " << row << " column " << column;
        }
      }
    }
  }
}

// Whatever the rule: the PTX ISA wants the products exact, and the sum no worse
// than by single precision.
TEST_P(MmaTest, SumsAreNearTheExactOnes) {
  for (const FloatForm& form : kFloatForms) {
    const bool half = form.accumulator.bits == 16;
    Bits a(form.shape.m, form.shape.k), b(form.shape.k, form.shape.n),
        c(form.shape.m, form.shape.n);
    const auto draw = [&](const Format& f) {
      // From 1 to 16, with any digits.
      const int shift = f.digits + f.unused;
      const auto one = static_cast<uint64_t>(0 - f.least + 1) << shift;
      const uint64_t sign = (random_() & 1) << (f.bits - 1);
      return sign | (one + random_() % (uint64_t{4} << shift));
    };
    a.Fill([&] { return draw(form.of); });
    b.Fill([&] { return draw(form.of); });
    c.Fill([&] { return draw(form.accumulator); });
    const Bits d =
        Multiply(form.shape, form.suffixes(), a, b, c, form.accumulator.bits);
    for (int row = 0; row < form.shape.m; ++row) {
      for (int column = 0; column < form.shape.n; ++column) {
        // In units of 2^-40: tf32 has 13 digits that do not count.
        const auto units = [](double x) {
          return static_cast<__int128>(std::ldexp(x, 40));
        };
        __int128 exact = units(form.accumulator.Value(c.at(row, column)));
        for (int k = 0; k < form.shape.k; ++k) {
          exact += units(form.of.Value(a.at(row, k)) *
                         form.of.Value(b.at(k, column)));
        }
        const __int128 error =
            units(form.accumulator.Value(d.at(row, column))) - exact;
        // No sum exceeds 2^12; 17 numbers of it are cut off, and the sums.
        const int digits = half ? 10 : 23;
        const double bound = half ? 1.5 : 19;
        EXPECT_LE(std::fabs(static_cast<double>(error)),
                  bound * std::ldexp(1, 40 + 12 - digits))
            << form.shape.name << form.suffixes();
      }
    }
  }
}

// One element of a product by m16n8k8: the sum of `c` and of these products.
class MmaFactsTest : public MmaTest {
 protected:
  float Sum(float c, const std::vector<float>& products) {
    return std::bit_cast<float>(
        static_cast<uint32_t>(One(kF32, std::bit_cast<uint32_t>(c), products)));
  }
  uint64_t One(const Format& accumulator, uint64_t c,
               const std::vector<float>& products) {
    Bits a(16, 8), b(8, 8), of_c(16, 8);
    for (size_t k = 0; k < products.size(); ++k) {
      // Each factor has half of the exponent.
      int exponent = 0;
      const float digits = std::frexp(products[k], &exponent);
      const int half = exponent / 2;
      a.at(0, static_cast<int>(k)) = HalfOf(std::ldexp(digits, half));
      b.at(static_cast<int>(k), 0) = HalfOf(std::ldexp(1.f, exponent - half));
    }
    of_c.at(0, 0) = c;
    const FloatForm form{kHalves8, kF16, accumulator, 8};
    return Multiply(kHalves8, form.suffixes(), a, b, of_c, accumulator.bits)
        .at(0, 0);
  }
  static uint64_t HalfOf(float x) {
    return kF16.Round(static_cast<__int128>(std::ldexp(x, 30)), -30, true);
  }
};
INSTANTIATE_TEST_SUITE_P(, MmaFactsTest, testing::ValuesIn(Versions()),
                         [](const auto& info) {
                           return info.param ? "X8664V3" : "Baseline";
                         });

// What Fasi et al. test tensor cores for: how sums are rounded, how many digits
// are kept below and above, whether partial sums are normalized, and subnormals.
TEST_P(MmaFactsTest, SumsAreCutOffTowardsZero) {
  EXPECT_EQ(Sum(1, {0x1.8p-24f}), 1.f);
  EXPECT_EQ(Sum(-1, {-0x1.8p-24f}), -1.f);
  EXPECT_EQ(Sum(0x1.000002p0f, {0x1.8p-24f}), 0x1.000002p0f);
}

TEST_P(MmaFactsTest, OneDigitIsKeptBelowTheLastOneOfTheSum) {
  EXPECT_EQ(Sum(1, {0x1p-24f, 0x1p-24f}), 1 + 0x1p-23f);
  // All of these together would be 2^-22.
  EXPECT_EQ(Sum(1, std::vector<float>(8, 0x1p-25f)), 1.f);
  // As one number they are not lost: additions are in no order.
  EXPECT_EQ(Sum(0, std::vector<float>(8, 0x1p-25f)), 0x1p-22f);
}

TEST_P(MmaFactsTest, PartialSumsAreNotNormalized) {
  // 1 - 1 leaves the last digit where it was.
  EXPECT_EQ(Sum(1, {-1, 0x1.cp-24f}), 0x1p-24f);
  EXPECT_EQ(Sum(0, {0x1.cp-24f}), 0x1.cp-24f);
  // Digits above are kept: 3 + 2^-23 needs 25.
  EXPECT_EQ(Sum(1, {1, 1, 0x1p-23f, 0x1p-23f, 0x1p-23f}), 3 + 0x1p-22f);
}

TEST_P(MmaFactsTest, SubnormalNumbersCount) {
  EXPECT_EQ(Sum(0x1p-149f, {}), 0x1p-149f);
  // The least .f16 times one.
  Bits a(16, 8), b(8, 8), c(16, 8);
  a.at(0, 0) = 1;
  b.at(0, 0) = 0x3c00;
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(
                Multiply(kHalves8, ".f32.f16.f16.f32", a, b, c, 32).at(0, 0))),
            0x1p-24f);
}

TEST_P(MmaFactsTest, HalfAccumulatorsAreRoundedToNearestEven) {
  EXPECT_EQ(One(kF16, HalfOf(1), {0x1p-11f}), HalfOf(1));
  EXPECT_EQ(One(kF16, HalfOf(1), {0x1.8p-11f}), HalfOf(1 + 0x1p-10f));
  EXPECT_EQ(One(kF16, HalfOf(1 + 0x1p-10f), {0x1p-11f}), HalfOf(1 + 0x1p-9f));
  EXPECT_EQ(One(kF16, HalfOf(65504), {16}), 0x7c00u);
}

TEST_P(MmaFactsTest, WhatIsTooLargeIsInfinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(Sum(kMost, {1024}), kMost);
  EXPECT_EQ(Sum(kMost, {0}), kMost);
  Bits a(16, 8), b(8, 8), c(16, 8);
  a.at(0, 0) = b.at(0, 0) = 0x7f00;  // 2^127, as .bf16
  EXPECT_EQ(Multiply(kHalves8, ".f32.bf16.bf16.f32", a, b, c, 32).at(0, 0),
            0x7f800000u);
  b.at(0, 0) = 0xff00;
  EXPECT_EQ(Multiply(kHalves8, ".f32.bf16.bf16.f32", a, b, c, 32).at(0, 0),
            0xff800000u);
}

}  // namespace
}  // namespace carillon::sim
