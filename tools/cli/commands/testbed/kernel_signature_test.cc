// A kernel's declaration on the command line: what it means, and where exactly
// it is wrong.
#include "tools/cli/commands/testbed/kernel_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::cli {
namespace {

using ::testing::HasSubstr;

TEST(KernelSignature, SaysSymbolKindsAndElements) {
  const auto kernel = ParseKernelSignature(
      "saxpy(x: read f32[], y: write f32[], a: f32, n: u32)");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->symbol(), "saxpy");
  ASSERT_EQ(kernel->parameters_size(), 4);
  EXPECT_EQ(kernel->parameters(0).name(), "x");
  EXPECT_EQ(kernel->parameters(0).kind(), v1::READ_BUFFER);
  EXPECT_EQ(kernel->parameters(0).element_bytes(), 4u);
  EXPECT_EQ(kernel->parameters(1).kind(), v1::WRITE_BUFFER);
  EXPECT_EQ(kernel->parameters(2).kind(), v1::F32);
  EXPECT_EQ(kernel->parameters(2).element_bytes(), 0u);
  EXPECT_EQ(kernel->parameters(3).name(), "n");
  EXPECT_EQ(kernel->parameters(3).kind(), v1::U32);
}

TEST(KernelSignature, TakesEveryTypeAndAnyBlanks) {
  const std::pair<const char*, v1::ParameterKind> values[] = {
      {"u32", v1::U32}, {"i32", v1::I32}, {"u64", v1::U64},
      {"i64", v1::I64}, {"f32", v1::F32}, {"f64", v1::F64}};
  for (const auto& [type, kind] : values) {
    const auto kernel =
        ParseKernelSignature(" _Z3fooi\t( v\n:" + std::string(type) + " ) ");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->symbol(), "_Z3fooi");
    EXPECT_EQ(kernel->parameters(0).kind(), kind);
  }
  const std::pair<const char*, uint32_t> elements[] = {
      {"u8", 1},   {"i8", 1},  {"u16", 2}, {"i16", 2}, {"f16", 2},
      {"bf16", 2}, {"u32", 4}, {"f64", 8}, {"12", 12}, {"1048576", 1 << 20}};
  for (const auto& [type, bytes] : elements) {
    const auto kernel =
        ParseKernelSignature("k(b:read " + std::string(type) + " [ ] )");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->parameters(0).element_bytes(), bytes);
  }
}

TEST(KernelSignature, MayHaveNoParameters) {
  const auto kernel = ParseKernelSignature("tick()");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->parameters_size(), 0);
}

struct Mistake {
  const char* name;
  const char* text;
  int character;
  const char* sentence;
};
void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name;
}

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsToldWithItsPlace) {
  const auto kernel = ParseKernelSignature(GetParam().text);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(kernel.status().message()),
              HasSubstr("at character " + std::to_string(GetParam().character) +
                        ": " + GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    All, MistakeTest,
    ::testing::Values(
        Mistake{"Empty", "", 1, "expected the kernel's name, found the end"},
        Mistake{"NoName", "(x: u32)", 1,
                "expected the kernel's name, found '('"},
        Mistake{"NoParentheses", "saxpy", 6,
                "expected '(' and the parameters, found the end"},
        Mistake{"NoParameterName", "k(: u32)", 3,
                "expected a parameter's name, found ':'"},
        Mistake{"NoColon", "k(x u32)", 5,
                "expected ':' and the parameter's type, found 'u'"},
        Mistake{"NoType", "k(x: )", 6,
                "expected u32, i32, u64, i64, f32 or f64, or read or write, "
                "found ')'"},
        Mistake{"UnknownType", "k(x: f33)", 6, "there is no type 'f33'"},
        Mistake{"NoDirection", "k(x: f32[])", 6,
                "a buffer is read or write: write 'read f32[]'"},
        Mistake{"SmallValue", "k(x: u8)", 6,
                "u8 can only be what a buffer is made of"},
        Mistake{"NoElement", "k(x: read)", 10,
                "expected what the buffer is made of"},
        Mistake{"UnknownElement", "k(x: read float[])", 11,
                "there is no type 'float'"},
        Mistake{"NoBrackets", "k(x: read f32, y: u32)", 14,
                "expected '[]' after the element, found ','"},
        Mistake{"OpenBracket", "k(x: read f32[, y: u32)", 15,
                "expected '[]' after the element, found ','"},
        Mistake{"NoBytes", "k(x: read 0[])", 11,
                "an element has from 1 to 1048576 bytes"},
        Mistake{"TooManyBytes", "k(x: read 99999999999[])", 11,
                "an element has from 1 to 1048576 bytes"},
        Mistake{"Twice", "k(x: u32, x: f32)", 11,
                "there is a parameter 'x' already"},
        Mistake{"CommaAtTheEnd", "k(x: u32,)", 10,
                "expected a parameter's name, found ')'"},
        Mistake{"NotClosed", "k(x: u32", 9,
                "expected ',' or ')' after the parameter, found the end"},
        Mistake{"More", "k(x: u32);", 10,
                "expected nothing more after ')', found ';'"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace carillon::cli
