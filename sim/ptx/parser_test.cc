#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "fmt/format.h"
#include "sim/ptx/module.h"

namespace carillon::sim::ptx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

std::string ErrorOf(const std::string& text) {
  const auto module = ParseModule(text, "a.ptx");
  return module.ok() ? "" : std::string(module.status().message());
}

Module Parsed(const std::string& text) {
  auto module = ParseModule(kHead + text, "a.ptx");
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : Module();
}

std::string Functions(int count, const std::string& body) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += ".func f" + std::to_string(i) + "() " + body + "\n";
  }
  return text;
}

// The body of an entry that has some registers.
std::string InBody(const std::string& text) {
  return fmt::format(
      ".visible .entry k(.param .u64 a, .param .u32 n) {{\n"
      ".reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<3>;\n{}\nret;\n}}\n",
      text);
}
const Instruction First(const std::string& text) {
  Module module = Parsed(InBody(text));
  if (module.functions.empty() || module.functions[0].body.empty()) return {};
  static Module kept;  // names are parts of its text
  kept = std::move(module);
  return kept.functions[0].body[0];
}

TEST(ParserTest, AnEntryHasItsParametersAsLaunchesLayThemOut) {
  const Module module = Parsed(
      ".visible .entry k(.param .u32 a, .param .u64 .ptr .global .align 16 b,\n"
      ".param .align 8 .b8 c[12], .param .u8 d)\n"
      ".maxntid 256, 2\n.minnctapersm 2\n.maxnreg 40\n{ ret; }");
  ASSERT_EQ(module.functions.size(), 1u);
  const Function& k = module.functions[0];
  EXPECT_EQ(module.FindEntry("k"), &k);
  EXPECT_EQ(module.FindEntry("l"), nullptr);
  EXPECT_EQ(k.ParameterOffset(0), 0u);
  EXPECT_EQ(k.ParameterOffset(1), 8u);  // .ptr's alignment is not its own
  EXPECT_EQ(k.ParameterOffset(2), 16u);
  EXPECT_EQ(k.ParameterOffset(3), 28u);
  EXPECT_EQ(k.ParameterBytes(), 29u);
  EXPECT_THAT(k.max_block, ElementsAre(256, 2, 1));
  EXPECT_EQ(k.min_blocks, 2u);
  EXPECT_EQ(k.max_registers, 40u);
}

TEST(ParserTest, AttributesOfClustersAreKept) {
  const Module module = Parsed(
      ".visible .entry k()\n.maxntid 128\n.explicitcluster\n"
      ".reqnctapercluster 2, 1, 1\n.maxclusterrank 4\n{ ret; }\n"
      ".visible .entry l() { ret; }");
  ASSERT_EQ(module.functions.size(), 2u);
  EXPECT_EQ(module.functions[0].unsupported, ".maxclusterrank");
  EXPECT_EQ(module.functions[0].max_block[0], 128u);
  EXPECT_EQ(module.functions[1].unsupported, "");
}

TEST(ParserTest, AnInstructionIsTakenApart) {
  const Instruction load =
      First("@!%p1 ld.global.nc.v2.u32 {%r1, %r2}, [%rd1+-8];");
  EXPECT_EQ(load.opcode, "ld");
  EXPECT_THAT(load.suffixes, ElementsAre("global", "nc", "v2", "u32"));
  ASSERT_TRUE(load.guard.has_value());
  EXPECT_TRUE(load.guard->negated);
  EXPECT_EQ(load.guard->reg, 1u);
  ASSERT_EQ(load.operands.size(), 2u);
  EXPECT_EQ(load.operands[0].kind, Operand::Kind::kVector);
  EXPECT_EQ(load.operands[0].parts[1].index, 3u + 2u);  // after %p0..2
  EXPECT_EQ(load.operands[1].kind, Operand::Kind::kAddress);
  EXPECT_EQ(load.operands[1].base, Operand::Kind::kRegister);
  EXPECT_EQ(load.operands[1].offset, -8);
  EXPECT_EQ(load.at, (Location{.line = 8, .column = 1}));
}

TEST(ParserTest, DirectivesNeedNoSpaceBetween) {
  const Module module = Parsed(InBody("{.reg.b16 h;.reg.f32 f;mov.b16 h,7;}"));
  ASSERT_EQ(module.functions.size(), 1u);
  EXPECT_EQ(module.functions[0].body[0].opcode, "mov");
}

TEST(ParserTest, InstructionsOfTexturesAndTensorsKeepTheirNames) {
  for (const std::string name :
       {"tex.2d.v4.f32.f32", "suld.b.2d.b32.trap",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"}) {
    const Instruction instruction =
        First(name + " {%r1, %r2}, [%rd1, {%r1, %r2}], [tensor], 1;");
    EXPECT_EQ(instruction.name, name);
    EXPECT_TRUE(instruction.operands.empty());
  }
  EXPECT_THAT(ErrorOf(std::string(kHead) +
                      ".entry k() { tex.2d.v4.f32.f32 [%rd1, {%r1"),
              HasSubstr("expected ';'"));
}

TEST(ParserTest, ARegisterBeyondItsRangeIsNone) {
  EXPECT_EQ(First("mov.u32 %r1, %r3;").operands[1].kind,
            Operand::Kind::kRegister);
  EXPECT_EQ(First("mov.u32 %r1, %r4;").operands[1].kind,
            Operand::Kind::kSpecial);
}

TEST(ParserTest, NumbersAreWhatTheySay) {
  const auto value = [](const std::string& number) {
    return First(fmt::format("mov.b64 %rd1, {};", number)).operands[1].value;
  };
  EXPECT_EQ(value("255"), 255u);
  EXPECT_EQ(value("-1"), ~uint64_t{0});
  EXPECT_EQ(value("0xFfU"), 255u);
  EXPECT_EQ(value("017"), 15u);
  EXPECT_EQ(value("0b101"), 5u);
  EXPECT_EQ(value("18446744073709551615"), ~uint64_t{0});
  EXPECT_EQ(value("0f3F800000"), 0x3f800000u);
  EXPECT_EQ(value("-0f3F800000"), 0xbf800000u);
  EXPECT_EQ(value("0d3FF0000000000000"), 0x3ff0000000000000u);
  EXPECT_EQ(value("1.5e3"), std::bit_cast<uint64_t>(1500.0));
}

TEST(ParserTest, InnerBracesHaveNamesOfTheirOwn) {
  const Module module =
      Parsed(InBody("{ .reg .b32 %r1; mov.u32 %r1, 1; bra done; done: }\n"
                    "mov.u32 %r1, 2;\n{ .reg .b32 %r1; bra done; }\ndone:"));
  const Function& k = module.functions[0];
  ASSERT_EQ(k.body.size(), 5u);
  EXPECT_NE(k.body[0].operands[0].index, k.body[2].operands[0].index);
  EXPECT_EQ(k.body[1].operands[0].index, 2u);  // its own
  EXPECT_EQ(k.body[3].operands[0].index, 4u);  // that outside
}

TEST(ParserTest, VariablesHaveTheirBytes) {
  const Module module = Parsed(
      ".global .align 8 .b8 text[4] = {104, 105};\n"
      ".const .f32 half = 0f3F000000;\n"
      ".global .u64 to[2] = {text+1, generic(text)};\n"
      ".extern .shared .align 16 .b8 all[];\n"
      ".global .v4 .f32 four;\n");
  ASSERT_EQ(module.variables.size(), 5u);
  EXPECT_EQ(module.variables[0].bytes, 4u);
  EXPECT_THAT(module.variables[0].initial,
              ElementsAre(std::byte{104}, std::byte{105}));
  EXPECT_THAT(
      module.variables[1].initial,
      ElementsAre(std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0x3f}));
  ASSERT_EQ(module.variables[2].relocations.size(), 2u);
  EXPECT_EQ(module.variables[2].relocations[0].offset, 1);
  EXPECT_EQ(module.variables[2].relocations[1].at, 8u);
  EXPECT_TRUE(module.variables[2].relocations[1].generic);
  EXPECT_EQ(module.variables[3].bytes, 0u);
  EXPECT_EQ(module.variables[4].bytes, 16u);
  EXPECT_EQ(module.variables[4].align, 16u);
}

TEST(ParserTest, CallsNameFunctionsThatComeLater) {
  const Module module =
      Parsed(".func (.param .b32 r) f(.param .b32 x);\n" +
             InBody("{ .param .b32 p0; st.param.b32 [p0], %r1; .param .b32 q;\n"
                    "call.uni (q), f, (p0); ld.param.b32 %r2, [q]; }") +
             ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<2>;\n"
             "ld.param.b32 %r1, [x]; st.param.b32 [r], %r1; ret; }");
  ASSERT_EQ(module.functions.size(), 2u);
  const Instruction& call = module.functions[1].body[1];
  EXPECT_EQ(call.operands[0].kind, Operand::Kind::kTuple);
  EXPECT_EQ(call.operands[1].kind, Operand::Kind::kFunction);
  EXPECT_EQ(module.functions[call.operands[1].index].name, "f");
  EXPECT_TRUE(module.functions[call.operands[1].index].defined);
}

TEST(ParserTest, DebuggingDirectivesArePassedOver) {
  const Module module =
      Parsed(".file 1 \"a.cu\"\n" +
             InBody(".loc 1 3 0, function_name $L__info, inlined_at 1 2 3\n"
                    ".pragma \"nounroll\";\nmov.u32 %r1, %tid.x;") +
             ".section .debug_str { $L__info: .b8 104, 0 }\n");
  EXPECT_EQ(module.functions[0].body.size(), 2u);
  EXPECT_EQ(module.functions[0].body[0].operands[1].name, "%tid.x");
}

TEST(ParserTest, EveryMistakeHasItsPlaceAndItsSentence) {
  const struct {
    std::string text, says;
  } kMistakes[] = {
      {"", "a.ptx:1:1: no PTX: a module begins with .version and .target"},
      {"hello", "a.ptx:1:1: a module begins with .version and .target"},
      {std::string("\x7f") + "ELF", "a.ptx:1:1: a character that PTX has not"},
      {".version x", "expected a version, found 'x'"},
      {".version 9.0\n.target sm_75\n.address_size 32",
       "a.ptx:3:15: the address size is 32: must be from 64 to 64"},
      {kHead + std::string("/* no end"),
       "a.ptx:4:1: a comment that never ends"},
      {kHead + std::string(".file 1 \"x"), "a string that never ends"},
      {kHead + std::string(".entry"), "expected the name of a function"},
      {kHead + std::string(".entry k { ret;"), "the body of 'k' never ends"},
      {kHead + std::string(".entry k {} .entry k {}"), "'k' is defined twice"},
      {kHead + std::string(".entry k(.global .u32 x) {}"),
       "parameter 'x' lies in .global"},
      {kHead + std::string(".entry k .maxntid 1,2,3,4 {}"),
       "a block has three dimensions at most"},
      {kHead + std::string(".entry k .maxntid 0 {}"),
       "the number is 0: must be from 1 to 4294967295"},
      {kHead + std::string(".global .u32 x[4] = {1,2,3,4,5};"),
       "'x' has 16 bytes, and 20 of initial values"},
      {kHead + std::string(".global .u32 x[2] = {1, 2;"),
       "an initializer that never ends"},
      {kHead + std::string(".global .u32 x = y;"),
       "an address needs an element of 8 bytes"},
      {kHead + Functions(5, "{ .reg .b32 %r<1000000>; }"),
       "more than 4194304 registers in all functions"},
      {kHead + std::string(".global .u32 x[];"), "'x' has no size"},
      {kHead + std::string(".global .u32 x[1073741824];"),
       "'x' has more than 1073741824 bytes"},
      {kHead + std::string(".global .align 3 .u32 x;"),
       "alignment 3 is no power of two"},
      {kHead + std::string(".global .pred x;"),
       "'.pred' is no type of a variable"},
      {kHead + std::string(".global .u32 x; .global .u32 x;"),
       "'x' is defined twice"},
      {kHead + std::string(".texref t;"),
       "'.texref' is no directive that is known here"},
      {kHead + InBody("mov.u32 %r1 2;"), "expected ';', found '2'"},
      {kHead + InBody("mov.u32 %r1, ;"), "expected an operand, found ';'"},
      {kHead + InBody("bra nowhere;"), "'nowhere' is not defined"},
      {kHead + InBody("{ here: } bra here;"), "'here' is not defined"},
      {kHead + InBody("@%r1 bra x;"), "a guard is a predicate register"},
      {kHead + InBody("mov.u32 %r1, 0f3F8;"),
       "0f is followed by 8 hexadecimal digits"},
      {kHead + InBody("mov.u32 %r1, 99999999999999999999;"),
       "an integer of more than 64 bits"},
      {kHead + InBody("mov.u32 %r1, 12ab;"), "a malformed number"},
      {kHead + InBody("ld.u32 %r1, [%tid.x];"), "'%tid.x' is no address"},
      {kHead + InBody("ld.u32 %r1, [%rd1"), "expected ']'"},
      {kHead + InBody(".reg .b32 %r<4>;"), "'%r' is defined twice"},
      {kHead + InBody(".reg .b32 %q<0>;"), "must be from 1 to"},
      {kHead + InBody(".reg .b32 %q<2000000>;"), "must be from 1 to"},
      {kHead + InBody("a: a:"), "'a' is defined twice"},
      {kHead + InBody(std::string(100, '{')),
       "more than 64 braces within each other"},
      {kHead + InBody("p: .calltargets f;"),
       "lists of call targets are not supported"},
      {kHead + InBody("p: .callprototype ();"), "expected '_'"},
  };
  for (const auto& mistake : kMistakes) {
    EXPECT_THAT(ErrorOf(mistake.text), HasSubstr(mistake.says)) << mistake.text;
    EXPECT_THAT(ErrorOf(mistake.text), HasSubstr("a.ptx:")) << mistake.text;
  }
}

// Wherever the text is cut off, the parser ends with an error.
TEST(ParserTest, AModuleThatIsCutOffIsRefused) {
  const std::string whole =
      kHead + std::string(".global .u32 x[2] = {1, 2};\n") +
      InBody("@%p1 ld.global.u32 %r1, [%rd1+4];\n{ .reg .b32 t; }");
  ASSERT_EQ(ErrorOf(whole), "");
  const size_t body = whole.find("{\n");
  for (size_t length = 0; length < whole.size() - 2; ++length) {
    const std::string error = ErrorOf(whole.substr(0, length));
    if (length > body) {
      EXPECT_NE(error, "") << whole.substr(0, length);
    }
  }
}

TEST(ParserTest, AFileThatIsNotThereIsNamed) {
  const auto module = ParseModuleFile("/nonexistent.ptx");
  EXPECT_EQ(module.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(module.status().message()),
              HasSubstr("/nonexistent.ptx"));
}

}  // namespace
}  // namespace carillon::sim::ptx
