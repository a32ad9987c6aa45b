#include "tools/cli/sim/kernel_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "sim/lower/lower.h"
#include "sim/ptx/module.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

using sim::ptx::Type;
using testing::HasSubstr;

class KernelArgumentsTest : public testing::Test {
 protected:
  absl::StatusOr<KernelArguments> Parse(const std::string& parameters,
                                        std::vector<std::string> texts) {
    auto module = sim::ptx::ParseModule(
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(" +
            parameters + ") { ret; }",
        "k.ptx");
    if (!module.ok()) return module.status();
    return ParseKernelArguments(module->functions[0], texts, &memory_);
  }
  std::string Error(const std::string& parameter, const std::string& text) {
    const auto arguments = Parse(parameter + " p", {text});
    EXPECT_EQ(arguments.status().code(), absl::StatusCode::kInvalidArgument)
        << text << ": " << arguments.status();
    return std::string(arguments.status().message());
  }
  // The bytes of the only parameter.
  template <class T>
  T Value(const std::string& parameter, const std::string& text) {
    const auto arguments = Parse(parameter + " p", {text});
    EXPECT_TRUE(arguments.ok()) << text << ": " << arguments.status();
    T value{};
    if (arguments.ok()) {
      EXPECT_EQ(arguments->bytes.size(), sizeof(T)) << text;
      std::memcpy(&value, arguments->bytes.data(), sizeof(T));
    }
    return value;
  }
  // The first values of the buffer that `text` describes.
  std::string First(const std::string& text, uint64_t most = 4) {
    const auto arguments = Parse(".param .u64 p", {text});
    EXPECT_TRUE(arguments.ok()) << text << ": " << arguments.status();
    if (!arguments.ok()) return "";
    return FirstValues(arguments->buffers.at(0), memory_, most);
  }

  sim::Memory memory_;
};

TEST_F(KernelArgumentsTest, NumbersHaveTheParametersType) {
  EXPECT_EQ(Value<uint32_t>(".param .u32", "4294967295"), 0xffffffffu);
  EXPECT_EQ(Value<uint32_t>(".param .u32", "0xff"), 255u);
  EXPECT_EQ(Value<int32_t>(".param .u32", "-2147483648"), INT32_MIN);
  EXPECT_EQ(Value<int64_t>(".param .s64", "-1"), -1);
  EXPECT_EQ(Value<uint8_t>(".param .u8", "255"), 255);
  EXPECT_EQ(Value<float>(".param .f32", "1.5"), 1.5f);
  EXPECT_EQ(Value<double>(".param .f64", "-1e300"), -1e300);
}

TEST_F(KernelArgumentsTest, NumbersThatAreNone) {
  EXPECT_EQ(Error(".param .u32", "4294967296"),
            "argument 1: '4294967296': does not fit 32 bits");
  EXPECT_EQ(Error(".param .s32", "-2147483649"),
            "argument 1: '-2147483649': does not fit 32 bits");
  EXPECT_EQ(Error(".param .u32", "1.5"),
            "argument 1: '1.5': no number of type u32");
  EXPECT_EQ(Error(".param .f32", "1.5f"),
            "argument 1: '1.5f': no number of type f32");
  for (const char* text : {"", "-", "0x", "--1", "1 ", "f32"}) {
    EXPECT_THAT(Error(".param .u32", text), HasSubstr("no number of type u32"));
  }
}

TEST_F(KernelArgumentsTest, EveryParameterHasOneArgument) {
  EXPECT_EQ(Parse(".param .u64 a, .param .f32 b", {"1"}).status().message(),
            "k has 2 parameters (.u64, .f32), and 1 are given");
  const auto arguments = Parse(".param .u8 a, .param .u64 b", {"1", "2"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->bytes.size(), 16u) << "aligned as cuLaunchKernel's";
  EXPECT_EQ(arguments->bytes[8], std::byte{2});
}

TEST_F(KernelArgumentsTest, BuffersHaveValues) {
  EXPECT_EQ(First("f32[5]"), "0 0 0 0 ...");
  EXPECT_EQ(First("f32[3]=1.5"), "1.5 1.5 1.5");
  EXPECT_EQ(First("s32[4]=-1,2"), "-1 2 0 0");
  EXPECT_EQ(First("u8[4]=iota"), "0 1 2 3");
  EXPECT_EQ(First("f64[4]=iota"), "0 1 2 3");
  EXPECT_EQ(First("u64[2]=18446744073709551615,1"), "18446744073709551615 1");
  EXPECT_EQ(First("u32[4]=random"), First("u32[4]=random:1"));
  EXPECT_NE(First("u32[4]=random"), First("u32[4]=random:2"));
  const auto arguments = Parse(".param .u64 p", {"f32[1000]=random"});
  ASSERT_TRUE(arguments.ok());
  const auto bytes = memory_.At(arguments->buffers[0].address, 4000);
  for (size_t i = 0; i < 1000; ++i) {
    float value;
    std::memcpy(&value, bytes->data() + 4 * i, 4);
    ASSERT_GE(value, 0.0f);
    ASSERT_LE(value, 1.0f);
  }
}

TEST_F(KernelArgumentsTest, BuffersThatAreNone) {
  EXPECT_THAT(Error(".param .u64", "pred[4]"),
              HasSubstr("'pred' is no type of an element"));
  EXPECT_THAT(Error(".param .u64", "[4]"), HasSubstr("is no type"));
  EXPECT_THAT(Error(".param .u64", "f32[4"), HasSubstr("']' is missing"));
  EXPECT_THAT(Error(".param .u64", "f32[0]"),
              HasSubstr("a buffer has 1 to 1073741824 elements"));
  EXPECT_THAT(Error(".param .u64", "f64[99999999999]"),
              HasSubstr("a buffer has 1 to"));
  EXPECT_THAT(Error(".param .u64", "f32[4]:2"),
              HasSubstr("after the count may come '=' and values"));
  EXPECT_THAT(Error(".param .u64", "u32[2]=1,2,3"),
              HasSubstr("'1,2,3': more than the 2 elements"));
  EXPECT_THAT(Error(".param .u64", "u32[2]=1,,3"), HasSubstr("no number"));
  EXPECT_THAT(Error(".param .u64", "u32[2]=random:x"), HasSubstr("no number"));
  EXPECT_THAT(Error(".param .u32", "u32[2]"),
              HasSubstr("has 8 bytes, the parameter 4"));
}

TEST_F(KernelArgumentsTest, AFilesBytesAreABuffer) {
  const std::string path = testing::TempDir() + "/kernel_arguments_test.bin";
  std::ofstream(path) << "abc";
  EXPECT_EQ(First("@" + path), "97 98 99");
  std::remove(path.c_str());
  const auto none = Parse(".param .u64 p", {"@" + path});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("No such file or directory"));
}

TEST_F(KernelArgumentsTest, AFolderIsNoFile) {
  EXPECT_THAT(Error(".param .u64", "@" + testing::TempDir()),
              HasSubstr("is a folder: the buffer must be a file"));
  EXPECT_FALSE(LoadModule(testing::TempDir()).ok());
}

TEST_F(KernelArgumentsTest, HalvesAreNumbers) {
  EXPECT_EQ(First("f16[4]=1.5,-2,65504,0.1"), "1.5 -2 65504 0.099975586");
  EXPECT_EQ(First("f16[3]=iota"), "0 1 2");
  EXPECT_EQ(First("bf16[3]=1.5,-2,0.1"), "1.5 -2 0.100097656");
  // A tie goes to the even one: 1 + 2^-8 and 1 + 3 * 2^-8.
  EXPECT_EQ(First("bf16[2]=1.00390625,1.01171875"), "1 1.015625");
}

TEST_F(KernelArgumentsTest, VariablesAreSetByName) {
  auto module = sim::ptx::ParseModule(
      ".version 8.0 .target sm_80 .address_size 64\n"
      ".const .align 4 .b8 weights[12]; .global .align 4 .u32 _ZN2ns5totalE;\n"
      ".shared .b32 box; .visible .entry _Z5scalePf(.param .u64 p) { ret; }\n"
      ".visible .entry _Z3sumIfEvPT_(.param .u64 p) { ret; }\n"
      ".visible .entry _Z3sumIiEvPT_(.param .u64 p) { ret; }\n"
      ".visible .entry _Z5scalePi(.param .u64 p) { ret; }",
      "test.ptx");
  ASSERT_TRUE(module.ok()) << module.status();
  const auto program = sim::Lower(
      std::make_shared<const sim::ptx::Module>(*std::move(module)), &memory_);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto set = [&](const std::string& text) {
    return std::string(SetVariable(**program, text, &memory_).message());
  };
  EXPECT_EQ(set("weights=f32:0.5,2"), "");
  const KernelBuffer weights{(*program)->variables[0].address, 3,
                             sim::ptx::Type::kF32};
  EXPECT_EQ(FirstValues(weights, memory_, 3), "0.5 2 0");
  EXPECT_EQ(set("ns::total=u32:7"), "");
  EXPECT_THAT(set("weights"), HasSubstr("NAME=TYPE:VALUES"));
  EXPECT_THAT(set("weights=f32"), HasSubstr("it has no values"));
  EXPECT_THAT(set("weights=1,2"), HasSubstr("is no type of an element"));
  EXPECT_THAT(set("weights=f32:1,2,3,4"), HasSubstr("more than the 3"));
  EXPECT_THAT(set("weights=f64:1"), HasSubstr("no whole number of f64"));
  EXPECT_THAT(set("weights=@/nonexistent"), HasSubstr("No such file"));
  EXPECT_EQ(set("box=u32:1"),
            "there is no variable 'box' in global or constant memory");

  const sim::ptx::Module& of = *(*program)->module;
  EXPECT_EQ((*ChooseKernel(of, "_Z5scalePi"))->name, "_Z5scalePi");
  EXPECT_EQ((*ChooseKernel(of, "sum<int>"))->name, "_Z3sumIiEvPT_");
  EXPECT_EQ(ChooseKernel(of, "scale").status(),
            absl::InvalidArgumentError(
                "test.ptx has 2 kernels 'scale', name one by its symbol: "
                "_Z5scalePf, _Z5scalePi"));
  EXPECT_EQ(ChooseKernel(of, "max").status(),
            absl::NotFoundError("test.ptx has no kernel 'max'; there are: "
                                "scale, sum<float>, sum<int>, scale"));
}

TEST_F(KernelArgumentsTest, PlainNamesAreThoseOfCxx) {
  EXPECT_EQ(PlainName("f"), "f");  // extern "C", and a code of a type
  EXPECT_EQ(PlainName("_Z5scalePf"), "scale");
  EXPECT_EQ(PlainName("_ZN2ns12_GLOBAL__N_13an2EPi"),
            "ns::(anonymous namespace)::an2");
  EXPECT_EQ(PlainName("_Z2wtIjE"), "wt<unsigned int>");
  EXPECT_EQ(PlainName("_Z2enIL2Op1EEvPi"), "en<(Op)1>");
  EXPECT_EQ(PlainName("_Z3runIjEvPFvT_E"), "run<unsigned int>");
  EXPECT_EQ(PlainName("_Znonsense"), "_Znonsense");
}

TEST_F(KernelArgumentsTest, StructsAreLaidOutAsC) {
  struct Expected {
    uint8_t a;
    uint32_t b;
    uint64_t span_address;
    uint64_t span_count;
    float c;
  };
  const auto arguments = Parse(".param .align 8 .b8 p[32]",
                               {"{u8:7;u32:9;span:s32[3]=iota;f32:0.5}"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  ASSERT_EQ(arguments->bytes.size(), sizeof(Expected));
  Expected given;
  std::memcpy(&given, arguments->bytes.data(), sizeof(given));
  EXPECT_EQ(given.a, 7);
  EXPECT_EQ(given.b, 9u);
  EXPECT_EQ(given.span_address, arguments->buffers.at(0).address);
  EXPECT_EQ(given.span_count, 3u);
  EXPECT_EQ(given.c, 0.5f);
}

TEST_F(KernelArgumentsTest, StructsThatAreNone) {
  const std::string parameter = ".param .align 8 .b8 p[16]";
  const auto error = [&](const std::string& text) {
    const auto arguments = Parse(parameter, {text});
    EXPECT_EQ(arguments.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    return std::string(arguments.status().message());
  };
  EXPECT_THAT(error("{u64:1;u64:2"), HasSubstr("'}' is missing"));
  EXPECT_THAT(error("{u64:1;2}"), HasSubstr("a value needs its type: u32:256"));
  EXPECT_THAT(error("{u64:1}"),
              HasSubstr("is a struct of 8 bytes, the parameter has 16"));
  EXPECT_THAT(error("{u64:1;u64:2;u64:3}"),
              HasSubstr("has 24 bytes, the parameter 16"));
  EXPECT_THAT(error("{span:u64:1;u64:2}"), HasSubstr("needs its type"));
}

TEST_F(KernelArgumentsTest, Dimensions) {
  EXPECT_EQ(*ParseDimensions("16"), (sim::Dim3{16, 1, 1}));
  EXPECT_EQ(*ParseDimensions("4x5x6"), (sim::Dim3{4, 5, 6}));
  EXPECT_EQ(*ParseDimensions("4,5"), (sim::Dim3{4, 5, 1}));
  for (const char* text :
       {"", "0", "1x0", "1x2x3x4", "x", "1x", "-1", "a", "4294967296"}) {
    EXPECT_FALSE(ParseDimensions(text).ok()) << text;
  }
}

}  // namespace
}  // namespace carillon::cli
